"""`adapt-degrading`: more and more of eight sites are half as fast (Flux, figure 7)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from penstock_bench.adapt.lanes import SITES, Lane, ideal, slow_sites, timelines
from penstock_bench.adapt.plots import points, write_curves
from penstock_bench.adapt.timeline import Timeline
from penstock_bench.experiments.experiment import Bar, Column, Experiment, Finding, Record, Setting

OWN = "even"
COUNTS = (0, 1, 2, 4, 6, 8)
BAR = 0.9
TITLE = "One to all of eight sites slowed by half"

Seen = Sequence[tuple[Lane, Timeline]]


def measure(setting: Setting) -> Finding:
    rows, counts = (40_000, (0, 4)) if setting.quick else (1_250_000, COUNTS)
    lanes = [Lane(policy, slow_sites(count)) for count in counts for policy in ("static", OWN)]
    return finding(list(timelines(setting, "adapt-degrading", rows, lanes)), setting)


def finding(seen: Seen, setting: Setting) -> Finding:
    usual = next(steady(timeline) for lane, timeline in seen if not lane.slowed and lane.policy == "static")
    records = tuple(_record(lane, timeline, usual) for lane, timeline in seen)
    least = min(y for _, y in points(records, "slowed", "of_ideal", policy=OWN))
    bar = Bar(f"least steady rate with `{OWN}`, of the ideal", least, "at least", BAR)
    return Finding(records, (bar,), all(timeline.equal for _, timeline in seen), _pictures(records, usual, setting))


def steady(seen: Timeline) -> float:
    """The rate of the second half of the time in which rows came in."""
    return seen.rate(seen.input_seconds / 2, seen.input_seconds)


def _record(lane: Lane, seen: Timeline, usual: float) -> Record:
    slow, rate = len(lane.slowed), steady(seen)
    return {
        "policy": lane.policy,
        "slowed": slow,
        "rate": rate,
        "of_usual": rate / usual,
        "ideal": ideal(slow),
        "of_ideal": rate / usual / ideal(slow),
        "moves": len(seen.moves()),
        "cpu": seen.cpu,
        "equal": seen.equal,
    }


def _pictures(records: Sequence[Record], usual: float, setting: Setting) -> tuple[Path, ...]:
    if setting.pictures is None:
        return ()
    curves = {name: points(records, "slowed", "rate", policy=name) for name in ("static", OWN)}
    curves["ideal"] = [(float(n), usual * ideal(n)) for n in range(SITES + 1)]
    path = setting.pictures / "adapt-degrading.png"
    return (write_curves(curves, TITLE, {}, path, ("sites slowed", "rows per second"), marker="o"),)


DEGRADING = Experiment(
    name="adapt-degrading",
    title=TITLE,
    note="Band join; a row costs 80 microseconds of sleep at its site; sites are slowed from the beginning. Ideal: "
    "what all sites can do together, of what they do when none is slowed and nothing moves.",
    columns=(
        Column("slowed", "slowed"),
        Column("policy", "policy"),
        Column("rate", "rows/s", ",.0f"),
        Column("of_usual", "of usual", ".0%"),
        Column("ideal", "ideal", ".0%"),
        Column("of_ideal", "of the ideal", ".0%"),
        Column("moves", "moves"),
        Column("cpu", "cores busy", ".0%"),
        Column("equal", "equal"),
    ),
    measure=measure,
)
