"""`overflow-portion`: how much of the state is parked at a time (D-Cape, figures 9 and 10)."""

from __future__ import annotations

from itertools import pairwise

from penstock_bench.experiments.experiment import Bar, Experiment, Finding, Setting
from penstock_bench.overflow.choices import Choice
from penstock_bench.overflow.lanes import Lane, Turns, all_equal, by_turns, middles
from penstock_bench.overflow.streams import Streams
from penstock_bench.overflow.table import COLUMNS, MEASURED, RESULTS, pictures, record

NAME = "overflow-portion"
TITLE = "10, 30, 50 or 100 % of the state parked at a time"
PORTIONS = (0.1, 0.3, 0.5, 1.0)
NOTHING = "nothing parked"
STATE, QUICK_STATE = 4_000_000, 250_000


def lanes(quick: bool) -> list[Lane]:
    """Return the run without a limit, and one for each portion. Nothing that is parked comes back before the end."""
    streams = Streams(6_000, (3,), 1_800) if quick else Streams(120_000, (3,))
    settings = {"rows_per_epoch": 900 if quick else 9_000, "state_bytes": QUICK_STATE if quick else STATE}
    free = Lane(NOTHING, streams, Choice("static"), settings)
    parked = [Lane(_named(part), streams, Choice("local", part, room=0.0), settings) for part in PORTIONS]
    return [free, *(parked[1:2] if quick else parked)]


def _named(part: float) -> str:
    return f"{part:.0%} at a time"


def measure(setting: Setting) -> Finding:
    return finding(by_turns(setting, NAME, lanes(setting.quick)), setting)


def finding(turns: Turns, setting: Setting) -> Finding:
    """The more is parked at a time, the fewer results there are before the clean-up, and the less often it happens."""
    seen = middles(turns)
    parked = [one for name, one in seen.items() if name != NOTHING]
    pairs = list(pairwise(parked))
    fewer = sum(one.results_before >= more.results_before for one, more in pairs)
    rarer = sum(one.pushes >= more.pushes for one, more in pairs)
    bars = (
        Bar("portions with no fewer results than the next larger one", fewer, "at least", len(pairs), "of them"),
        Bar("portions parked no less often than the next larger one", rarer, "at least", len(pairs), "of them"),
    )
    drawn = pictures(
        setting,
        {
            f"{NAME}-results": (TITLE, RESULTS, {name: one.output() for name, one in seen.items()}),
            f"{NAME}-memory": (TITLE, "active state, MB", {name: one.memory() for name, one in seen.items()}),
        },
    )
    return Finding(tuple(record(*one) for one in seen.items()), bars, all_equal(turns), drawn)


PORTION = Experiment(
    NAME,
    TITLE,
    MEASURED + "Policy `local` on one site, all join ratios 3, 120,000 rows a stream; a third of the state fits. What "
    "is parked comes back only at the end, as in the paper.",
    COLUMNS,
    measure,
)
