"""`overflow-active`: unproductive state parked for the sake of others, or only what exceeds memory (D-Cape, figure
21)."""

from __future__ import annotations

from penstock_bench.experiments.experiment import Bar, Experiment, Finding, Setting
from penstock_bench.overflow.choices import Choice
from penstock_bench.overflow.lanes import Lane, Turns, all_equal, by_turns, middles
from penstock_bench.overflow.seen import OverflowSeen
from penstock_bench.overflow.streams import Streams
from penstock_bench.overflow.table import COLUMNS, MEASURED, RESULTS, pictures, record, times

NAME = "overflow-active"
TITLE = "Unproductive sites park (`active-disk`), or only full ones (`lazy-disk`)"
ACTIVE, LAZY = "active-disk", "lazy-disk"
STATE, QUICK_STATE = 1_500_000, 80_000
MORE, LATER = 1.05, 1.1


def lanes(quick: bool) -> list[Lane]:
    """Return the runs: the groups of site 0 have a join ratio of 4, all others of 1."""
    streams = Streams(7_200, (4, 1, 1), 3_600) if quick else Streams(120_000, (4, 1, 1))
    more = {
        "sites": 3,
        "groups_per_site": 22,
        "rows_per_epoch": 900 if quick else 9_000,
        "state_bytes": QUICK_STATE if quick else STATE,
    }
    return [Lane(kind, streams, Choice(kind), more) for kind in (LAZY, ACTIVE)]


def measure(setting: Setting) -> Finding:
    return finding(by_turns(setting, NAME, lanes(setting.quick)), setting)


def finding(turns: Turns, setting: Setting) -> Finding:
    """In the paper, throughput falls at first when parks are forced, and is higher in the long run."""
    seen = middles(turns)
    lazy, active = seen[LAZY], seen[ACTIVE]
    bars = (
        Bar(f"results before the clean-up, `{ACTIVE}` of `{LAZY}`",
            times(active.results_before, lazy.results_before), "at least", MORE),
        Bar(f"results in the last quarter of the input, `{ACTIVE}` of `{LAZY}`",
            times(_last_quarter(active), _last_quarter(lazy)), "at least", LATER),
    )  # fmt: skip
    drawn = pictures(setting, {NAME: (TITLE, RESULTS, {name: one.output() for name, one in seen.items()})})
    return Finding(tuple(record(*one) for one in seen.items()), bars, all_equal(turns), drawn)


def _last_quarter(seen: OverflowSeen) -> int:
    epochs = seen.normal
    return sum(epoch.results for epoch in epochs[len(epochs) * 3 // 4 :])


ACTIVE_OR_LAZY = Experiment(
    NAME,
    TITLE,
    MEASURED + "Three sites with a third of the groups each: those of the first have the join ratio 4, all others 1; "
    "120,000 rows a stream, and memory for a third of the state.",
    COLUMNS,
    measure,
)
