"""`overflow-victims`: groups with few results parked first, or those with many (D-Cape, figures 11 and 12)."""

from __future__ import annotations

from penstock_bench.experiments.experiment import Bar, Experiment, Finding, Setting
from penstock_bench.overflow.choices import Choice
from penstock_bench.overflow.lanes import Lane, Turns, all_equal, by_turns, middles
from penstock_bench.overflow.streams import Streams
from penstock_bench.overflow.table import COLUMNS, MEASURED, RESULTS, pictures, record, times

NAME = "overflow-victims"
TITLE = "Groups with few results parked first, or those with many"
LOW, HIGH, NOTHING = "few results first", "many results first", "nothing parked"
MIXED, EVEN = "ratios 4, 2, 1", "ratio 3"
FILES = {MIXED: NAME, EVEN: f"{NAME}-even"}  # of pictures: figures 11 and 12 of the paper
MORE_RESULTS, FASTER = 1.5, 1.0
STATE, QUICK_STATE = 4_000_000, 250_000


def lanes(quick: bool) -> list[Lane]:
    """Return the runs: with groups that differ, and with groups that are alike."""
    settings = {"rows_per_epoch": 900 if quick else 9_000, "state_bytes": QUICK_STATE if quick else STATE}
    ratios = {MIXED: (4, 2, 1)} if quick else {MIXED: (4, 2, 1), EVEN: (3,)}
    choices = {NOTHING: Choice("static"), LOW: Choice("local"), HIGH: Choice("local", productive_first=True)}
    return [
        Lane(f"{kind}, {order}", _streams(quick, given), choice, settings)
        for kind, given in ratios.items()
        for order, choice in choices.items()
    ]


def _streams(quick: bool, ratios: tuple[int, ...]) -> Streams:
    return Streams(7_200, ratios, 3_600) if quick else Streams(120_000, ratios)


def measure(setting: Setting) -> Finding:
    return finding(by_turns(setting, NAME, lanes(setting.quick), 1 if setting.quick else setting.repeat), setting)


def finding(turns: Turns, setting: Setting) -> Finding:
    seen = middles(turns)
    low, high = seen[f"{MIXED}, {LOW}"], seen[f"{MIXED}, {HIGH}"]
    more = times(low.results_before, high.results_before)
    faster = times(high.clean_up_seconds, low.clean_up_seconds)
    bars = (
        Bar(f"results before the clean-up, {LOW}, of {HIGH}", more, "at least", MORE_RESULTS),
        Bar(f"clean-up, {HIGH}, of {LOW}", faster, "at least", FASTER),
    )
    lines = {kind: {name: one.output() for name, one in seen.items() if name.startswith(kind)} for kind in FILES}
    drawn = pictures(setting, {FILES[kind]: (TITLE, RESULTS, own) for kind, own in lines.items() if own})
    return Finding(tuple(record(*one) for one in seen.items()), bars, all_equal(turns), drawn)


VICTIMS = Experiment(
    NAME,
    TITLE,
    MEASURED + "Policy `local` on one site, 30 % parked at a time, 120,000 rows a stream; a third of the state fits. A "
    "third of the partitions has the join ratio 4, a third 2, a third 1; then all have 3. Of several turns the one "
    "with the median clean-up. In the paper the clean-up took 27 s for 194,308 results, and 359 s for 992,893.",
    COLUMNS,
    measure,
)
