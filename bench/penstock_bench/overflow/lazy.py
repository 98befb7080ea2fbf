"""`overflow-lazy`: moves before parks, or parks alone, where the memory of all sites is too little (D-Cape, figure
20)."""

from __future__ import annotations

from penstock_bench.experiments.experiment import Bar, Experiment, Finding, Setting
from penstock_bench.overflow.choices import Choice
from penstock_bench.overflow.lanes import Lane, Turns, all_equal, by_turns, middles
from penstock_bench.overflow.moved import HEAVY
from penstock_bench.overflow.streams import Streams
from penstock_bench.overflow.table import COLUMNS, MEASURED, RESULTS, pictures, record, times

NAME = "overflow-lazy"
TITLE = "Moves before parks (`lazy-disk`), or parks alone (`local`)"
LAZY, LOCAL = "lazy-disk", "local"
SOME, LITTLE = "one site overflows", "all sites overflow"
STATE = {SOME: 3_000_000, LITTLE: 1_500_000}
QUICK_STATE = {LITTLE: 80_000}
FASTER, MORE = 2.0, 1.0


def lanes(quick: bool) -> list[Lane]:
    """Return the runs: with memory of which only the first site has too little, and with too little everywhere."""
    streams = Streams(6_000, (2,), 1_200) if quick else Streams(120_000, (2,))
    more = {"sites": 3, "groups_per_site": 22, "rows_per_epoch": 900 if quick else 9_000}
    return [
        Lane(f"{what}, {kind}", streams, Choice(kind), {**more, "state_bytes": size}, heavy=HEAVY)
        for what, size in (QUICK_STATE if quick else STATE).items()
        for kind in (LOCAL, LAZY)
    ]


def measure(setting: Setting) -> Finding:
    return finding(by_turns(setting, NAME, lanes(setting.quick), 1 if setting.quick else setting.repeat), setting)


def finding(turns: Turns, setting: Setting) -> Finding:
    seen = middles(turns)
    bars: list[Bar] = []
    for what in STATE:
        if f"{what}, {LAZY}" in seen:
            local, lazy = seen[f"{what}, {LOCAL}"], seen[f"{what}, {LAZY}"]
            faster = times(local.clean_up_seconds, lazy.clean_up_seconds)
            more = times(lazy.results_before, local.results_before)
            bars.append(Bar(f"{what}: results before the clean-up, `{LAZY}` of `{LOCAL}`", more, "at least", MORE))
            bars.append(Bar(f"{what}: clean-up, `{LOCAL}` of `{LAZY}`", faster, "at least", FASTER))
    drawn = pictures(setting, {NAME: (TITLE, RESULTS, {name: one.output() for name, one in seen.items()})})
    return Finding(tuple(record(*one) for one in seen.items()), tuple(bars), all_equal(turns), drawn)


LAZY_OR_LOCAL = Experiment(
    NAME,
    TITLE,
    MEASURED + "Three sites, of which one begins with two thirds of the groups; join ratio 2, 120,000 rows a stream. "
    "Then even less memory, so that all sites park; there the paper has about as many results before the clean-up with "
    "and without moves, and clean-ups of 400 and 1,600 s. Of several turns the one with the median clean-up.",
    COLUMNS,
    measure,
)
