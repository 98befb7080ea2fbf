"""`overflow-moved`: state that is moved to sites with room, or parked where it is (D-Cape, figure 17)."""

from __future__ import annotations

from penstock_bench.experiments.experiment import Bar, Experiment, Finding, Setting
from penstock_bench.overflow.choices import Choice
from penstock_bench.overflow.lanes import Lane, Turns, all_equal, by_turns, middles
from penstock_bench.overflow.streams import Streams
from penstock_bench.overflow.table import COLUMNS, MEASURED, RESULTS, pictures, record, times

NAME = "overflow-moved"
TITLE = "State moved to sites with room, or parked"
MOVED, PARKED = "moved (`lazy-disk`)", "parked (`local`)"
HEAVY = 0.66  # of all groups begin at site 0
ALL, STATE = 0.999, 5_000_000
QUICK_STATE = 250_000


def lanes(quick: bool) -> list[Lane]:
    """Return the runs; the memory of all sites together is enough for the state."""
    streams = Streams(6_000, (2,), 1_200) if quick else Streams(120_000, (2,))
    more = {
        "sites": 3,
        "groups_per_site": 22,
        "rows_per_epoch": 900 if quick else 9_000,
        "state_bytes": QUICK_STATE if quick else STATE,
    }
    return [Lane(name, streams, Choice(kind), more, heavy=HEAVY) for name, kind in KINDS.items()]


KINDS = {PARKED: "local", MOVED: "lazy-disk"}


def measure(setting: Setting) -> Finding:
    return finding(by_turns(setting, NAME, lanes(setting.quick)), setting)


def finding(turns: Turns, setting: Setting) -> Finding:
    seen = middles(turns)
    moved, parked = seen[MOVED], seen[PARKED]
    whole = moved.results_before + moved.results_owed
    bars = (
        Bar("results before the clean-up, moved, of all", moved.results_before / whole, "at least", ALL, "of them"),
        Bar("results, moved, of parked", times(moved.results_before, parked.results_before), "at least", 1.0),
    )
    lines = {name: one.output() for name, one in seen.items()}
    memory = {f"{name}, site {site}": one.memory(site) for name, one in seen.items() for site in (0, 1)}
    drawn = pictures(
        setting,
        {NAME: (TITLE, RESULTS, lines), f"{NAME}-memory": (TITLE, "active state of a site, MB", memory)},
    )
    return Finding(tuple(record(*one) for one in seen.items()), bars, all_equal(turns), drawn)


MOVED_OR_PARKED = Experiment(
    NAME,
    TITLE,
    MEASURED + "Three sites, of which one begins with two thirds of the groups; its state is more than its memory, and "
    "that of all sites is less than theirs. Join ratio 2, 120,000 rows a stream.",
    COLUMNS,
    measure,
)
