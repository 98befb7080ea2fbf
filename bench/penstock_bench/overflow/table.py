"""What the tables and pictures of the experiments on overflow have in common."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from penstock_bench.adapt.plots import Points, write_curves
from penstock_bench.experiments.experiment import Column, Record, Setting
from penstock_bench.overflow.seen import OverflowSeen

COLUMNS = (
    Column("run", "run"),
    Column("before", "results before the clean-up", ","),
    Column("owed", "by the clean-up", ","),
    Column("clean_up_seconds", "clean-up s", ".2f"),
    Column("work_seconds", "work before s", ".2f"),
    Column("pushes", "times parked"),
    Column("parked", "parked MB", ".1f"),
    Column("moves", "moves"),
    Column("equal", "equal"),
)
RESULTS = "results so far, millions"
MEASURED = (
    "Three-way join of generated streams, epochs with a fixed number of rows, rounds of one epoch by a simulated "
    "clock: what is decided, and all numbers of results, are the same in every run. Seconds are processor time in one "
    "process; those of a clean-up are of the site that takes longest in each epoch. "
)
SIMULATED = (
    "Three-way join of generated streams with a window of 300 s, 3,000 rows of each in an epoch, so that state has "
    "stopped growing. The clock is simulated: a row takes 0.2 ms, a result 0.02 ms, disks nothing, and an epoch as "
    "long as its slowest site; so all figures are the same in every run. Parked groups are cleaned up in turns "
    "(`rotate`). In the end: in the second half of the time with the disturbance. The wait of a result is that for a "
    "clean-up. "
)


def record(name: str, seen: OverflowSeen) -> Record:
    """Return the line of a run."""
    return {
        "run": name,
        "before": seen.results_before,
        "owed": seen.results_owed,
        "clean_up_seconds": seen.clean_up_seconds,
        "work_seconds": seen.work,
        "pushes": seen.pushes,
        "parked": seen.most_parked / 1e6,
        "moves": seen.moves,
        "equal": seen.equal,
    }


def pictures(
    setting: Setting, curves: Mapping[str, tuple[str, str, Mapping[str, Points]]], over: str = "epoch"
) -> tuple[Path, ...]:
    """Write a picture for each file name: its title, what is drawn over the epochs, and the lines. None if no pictures
    are wanted."""
    if setting.pictures is None:
        return ()
    return tuple(
        write_curves(lines, title, {}, setting.pictures / f"{name}.png", (over, what))
        for name, (title, what, lines) in curves.items()
    )


def times(more: float, less: float) -> float:
    """Return how many times as much one figure is as another, which may be 0."""
    return more / less if less else (1.0 if not more else float("inf"))
