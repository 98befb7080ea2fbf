"""`overflow-mixed`: one site loses half of its memory, and another one half of its speed (Flux, section 6.3)."""

from __future__ import annotations

from penstock_bench.experiments.experiment import Bar, Experiment, Finding, Setting
from penstock_bench.overflow import pressure
from penstock_bench.overflow.lanes import Lane, Turns, all_equal, by_turns, middles
from penstock_bench.overflow.pressure import COLUMNS, UNDISTURBED
from penstock_bench.overflow.table import SIMULATED, times

NAME = "overflow-mixed"
TITLE = "One site loses half of its memory, another one half of its speed"
SLOWED = (1,)
NOTHING, WORK, STATE, BOTH = "nothing moves (`local`)", "work (`flux`)", "state (`memory`)", "both (`hybrid`)"
KINDS = {UNDISTURBED: "static", NOTHING: "local", WORK: "flux", STATE: "memory", BOTH: "hybrid"}
OF_WORK, OF_STATE, WAITS = 0.95, 1.3, 0.1


def lanes(quick: bool) -> list[Lane]:
    """Return the runs; only the first is not disturbed."""
    how = pressure.scale(quick)
    kinds = {name: kind for name, kind in KINDS.items() if not quick or name != NOTHING}
    return [how.lane(name, kind, () if name == UNDISTURBED else SLOWED) for name, kind in kinds.items()]


def measure(setting: Setting) -> Finding:
    return finding(by_turns(setting, NAME, lanes(setting.quick)), setting)


def finding(turns: Turns, setting: Setting) -> Finding:
    """The policy for both is to be about as fast as the one for work, and to have results about as soon as the one for
    state."""
    seen, how = middles(turns), pressure.scale(setting.quick)
    records = {name: pressure.record(name, one, seen[UNDISTURBED], how) for name, one in seen.items()}
    rates = {name: pressure.steady(one, how) for name, one in seen.items()}
    waits = {name: pressure.delay(one, seen[UNDISTURBED], how) for name, one in seen.items()}
    bars = (
        Bar("results/s in the end, `hybrid` of `memory`", times(rates[BOTH], rates[STATE]), "at least", OF_STATE),
        Bar("results/s in the end, `hybrid` of `flux`", times(rates[BOTH], rates[WORK]), "at least", OF_WORK),
        Bar("mean wait of a result, `hybrid` of `flux`", times(waits[BOTH], waits[WORK]), "at most", WAITS),
    )
    drawn = pressure.pictures(setting, NAME, TITLE, "both disturbed", seen, how)
    return Finding(tuple(records.values()), bars, all_equal(turns), drawn)


MIXED = Experiment(
    NAME,
    TITLE,
    SIMULATED
    + "Three quarters of the memory of each of eight sites are in use when another process takes half of that "
    "of site 0, and site 1 gets half as fast. `flux` knows nothing of memory; full sites park by themselves, as in "
    "the paper. That says that a hybrid policy outperforms the others under such a mixture, and has no figure of it.",
    COLUMNS,
    measure,
)
