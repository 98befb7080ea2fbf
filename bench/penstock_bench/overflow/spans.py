"""`overflow-moves`: when state is moved, and how often, under a load that alternates (D-Cape, figures 14 to 16)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from penstock_bench.experiments.experiment import Bar, Column, Experiment, Finding, Record, Setting
from penstock_bench.overflow.choices import Choice
from penstock_bench.overflow.lanes import Lane, Turns, all_equal, by_turns, middles
from penstock_bench.overflow.seen import OverflowSeen
from penstock_bench.overflow.streams import Streams
from penstock_bench.overflow.table import MEASURED, RESULTS, pictures

NAME = "overflow-moves"
TITLE = "When state is moved between two sites, and how often"
STATIC = "no moves"
PARTS = (0.9, 0.7, 0.5)  # a site gives if the other holds less than this part of what it holds
SPANS = (15.0, 30.0)  # seconds between two moves at least, beside the 45 of the others
APART = 0.05
MINUTES, EPOCHS_A_MINUTE = 60, 4
TURNS = 5


def lanes(quick: bool) -> list[Lane]:
    """Return the run without moves, and those with. An hour of a simulated clock, in epochs of a quarter minute, in
    which the sites take turns of five and ten minutes with ten times as many rows as the other."""
    epochs = MINUTES * EPOCHS_A_MINUTE // (8 if quick else 1)
    rows = 60 if quick else 500  # of a stream in an epoch
    turns = (300_000_000 // (8 if quick else 1), 600_000_000 // (8 if quick else 1))
    streams = Streams(epochs * rows, (1,), 3_000 if quick else 30_000, rate=rows / 15, skew=10, alternate=turns)
    more: dict[str, str | int | float | None] = {"sites": 2, "rows_per_epoch": 3 * rows, "overflow": "read"}
    choices = {STATIC: Choice("static"), **{_named(part, 45): Choice("lazy-disk", balanced=part) for part in PARTS}}
    choices |= {_named(PARTS[0], span): Choice("lazy-disk", balanced=PARTS[0], span=span) for span in SPANS}
    some = {name: choices[name] for name in (STATIC, _named(PARTS[0], SPANS[0]))} if quick else choices
    return [Lane(name, streams, choice, more) for name, choice in some.items()]


def _named(part: float, span: float) -> str:
    return f"below {part:.0%}, every {span:.0f} s"


def measure(setting: Setting) -> Finding:
    return finding(by_turns(setting, NAME, lanes(setting.quick), 1 if setting.quick else TURNS), setting)


def finding(turns: Turns, setting: Setting) -> Finding:
    """Compare rates: results per second of processor time, as parts of the mean of their turn."""
    rates = relative({name: [rate(one) for one in seen] for name, seen in turns.items()})
    records = tuple(_record(name, turns[name], rates[name]) for name in turns)
    least, most = min(rates.values()), max(rates.values())
    bar = Bar("rates apart, of the highest", 1 - least / most, "at most", APART, "of it")
    return Finding(records, (bar,), all_equal(turns), _pictures(turns, setting))


def rate(seen: OverflowSeen) -> float:
    """Return results per second of processor time, of driver and sites."""
    return seen.results_before / seen.work


def relative(rates: dict[str, list[float]]) -> dict[str, float]:
    """Return the median rate of each run as a part of the mean of its turn: the machine gets faster and slower."""
    means = [sum(turn) / len(turn) for turn in zip(*rates.values(), strict=True)]
    return {name: median(one / mean for one, mean in zip(own, means, strict=True)) for name, own in rates.items()}


def _record(name: str, own: Sequence[OverflowSeen], part: float) -> Record:
    epochs = own[0].normal[4:-1]  # the first moves take some epochs, and in the last one all state expires
    return {
        "run": name,
        "before": own[0].results_before,
        "rate": median(map(rate, own)),
        "relative": part,
        "moves": own[0].moves,
        "rounds": sum(epoch.moves > 0 for epoch in own[0].epochs),
        "apart": max(_apart(epoch.held) for epoch in epochs),
        "held": max(max(epoch.held) for epoch in epochs) / 1e6,
        "equal": all(one.equal for one in own),
    }


def _apart(held: tuple[int, ...]) -> float:
    """Return how much less the emptiest site holds than the fullest, as a part of that."""
    return 1 - min(held) / max(held)


def _pictures(turns: Turns, setting: Setting) -> tuple[Path, ...]:
    seen = middles(turns)
    moved = _named(PARTS[0], SPANS[0])
    memory = {f"{name}, site {site}": seen[name].memory(site) for name in (STATIC, moved) for site in (0, 1)}
    results = {name: one.output_by_work() for name, one in seen.items()}
    return (
        *pictures(setting, {f"{NAME}-results": (TITLE, RESULTS, results)}, "seconds of processor time"),
        *pictures(setting, {f"{NAME}-memory": (TITLE, "state of a site, MB", memory)}),
    )


SPANS_VARIED = Experiment(
    NAME,
    TITLE,
    MEASURED
    + "Two sites, of which one gets ten times as many rows as the other, by turns of five and ten minutes of an "
    "hour; memory is not bounded. Policy `lazy-disk`: a site gives to the other if that holds less than a part of what "
    "it holds, and again only after a time. The rate is results per second of processor time; relative: of the mean of "
    "its turn, median of five turns. Apart: the largest difference of the sites, of the fuller one.",
    (
        Column("run", "run"),
        Column("before", "results", ","),
        Column("rate", "results/s", ",.0f"),
        Column("relative", "relative", ".3f"),
        Column("rounds", "times moved"),
        Column("moves", "groups moved"),
        Column("apart", "most apart", ".0%"),
        Column("held", "fuller site MB", ".1f"),
        Column("equal", "equal"),
    ),
    measure,
)
