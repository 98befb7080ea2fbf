"""`adapt-rotating`: a short disturbance goes from site to site; pending buffers absorb it (Flux, figure 3)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from penstock_bench.adapt.degrading import steady
from penstock_bench.adapt.lanes import SITES, Lane, ideal, timelines
from penstock_bench.adapt.plots import points, write_curves
from penstock_bench.adapt.slowdown import Slowed
from penstock_bench.adapt.timeline import Timeline
from penstock_bench.adapt.watched_run import Option
from penstock_bench.experiments.experiment import Bar, Column, Experiment, Finding, Record, Setting

LASTING = 2.0  # seconds that a site is slowed before it is the next one's turn
BUFFERS = (None, 5_000, 12_500, 25_000, 50_000)  # rows; None: a site works until all is done, and the others wait
ENOUGH = 25_000
BAR = 0.9
TITLE = "A disturbance that goes from site to site"

Seen = Sequence[tuple[Lane, Timeline]]


def measure(setting: Setting) -> Finding:
    rows, buffers = (40_000, (None, ENOUGH)) if setting.quick else (1_000_000, BUFFERS)
    turns = rotation(20.0 if setting.quick else 120.0)
    more: dict[str, Option] = {"rows_per_epoch": 10_000} if setting.quick else {}  # or all would be one epoch
    lanes = [Lane("static", buffer_rows=None, more=more)]
    lanes += [Lane("static", turns, buffer_rows=buffer, more=more) for buffer in buffers]
    return finding(list(timelines(setting, "adapt-rotating", rows, lanes)), setting)


def rotation(seconds: float) -> tuple[Slowed, ...]:
    """Site after site, for as long."""
    return tuple(Slowed(n % SITES, n * LASTING, (n + 1) * LASTING) for n in range(int(seconds / LASTING)))


def finding(seen: Seen, setting: Setting) -> Finding:
    usual = next(steady(timeline) for lane, timeline in seen if not lane.slowed)
    records = tuple(_record(lane, timeline, usual) for lane, timeline in seen)
    enough = dict(points(records, "buffer_rows", "of_ideal", disturbed=True))[ENOUGH]
    bar = Bar(f"rate with buffers of {ENOUGH:,} rows, of the ideal", enough, "at least", BAR)
    return Finding(records, (bar,), all(timeline.equal for _, timeline in seen), _pictures(records, usual, setting))


def _record(lane: Lane, seen: Timeline, usual: float) -> Record:
    rate, best = steady(seen), ideal(1) if lane.slowed else 1.0
    return {
        "disturbed": bool(lane.slowed),
        "buffer_rows": lane.buffer_rows,
        "rate": rate,
        "of_usual": rate / usual,
        "of_ideal": rate / usual / best,
        "backlog": max(epoch.backlog for epoch in seen.epochs),
        "cpu": seen.cpu,
        "equal": seen.equal,
    }


def _pictures(records: Sequence[Record], usual: float, setting: Setting) -> tuple[Path, ...]:
    if setting.pictures is None:
        return ()
    disturbed = points(records, "buffer_rows", "rate", disturbed=True)
    curves = {"disturbed": disturbed, "undisturbed": [(x, usual) for x, _ in disturbed]}
    path = setting.pictures / "adapt-rotating.png"
    return (
        write_curves(curves, TITLE, {}, path, ("rows that the buffer of a site holds", "rows per second"), marker="o"),
    )


ROTATING = Experiment(
    name="adapt-rotating",
    title=TITLE,
    note="Band join; a row costs 80 microseconds of sleep at its site. One site after the other is half as fast for "
    "two seconds. Nothing moves: what the deadline leaves undone waits in the buffer of the site.",
    columns=(
        Column("disturbed", "disturbed"),
        Column("buffer_rows", "buffer rows", ","),
        Column("rate", "rows/s", ",.0f"),
        Column("of_usual", "of undisturbed", ".0%"),
        Column("of_ideal", "of the ideal", ".0%"),
        Column("backlog", "most pending", ","),
        Column("cpu", "cores busy", ".0%"),
        Column("equal", "equal"),
    ),
    measure=measure,
)
