"""`overflow-halved`: another process takes half of the memory of one site (Flux, figures 9 and 10)."""

from __future__ import annotations

from penstock_bench.experiments.experiment import Bar, Experiment, Finding, Setting
from penstock_bench.overflow import pressure
from penstock_bench.overflow.lanes import Lane, Turns, all_equal, by_turns, middles
from penstock_bench.overflow.pressure import COLUMNS, UNDISTURBED
from penstock_bench.overflow.table import SIMULATED, times

NAME = "overflow-halved"
TITLE = "Half of the memory of a site is taken"
PARKED, MOVED = "parked (`local`)", "moved (`memory`)"
KINDS = {UNDISTURBED: "static", PARKED: "local", MOVED: "memory"}
OF_UNDISTURBED, OF_PARKED, WAITS = 0.9, 1.05, 0.1


def lanes(quick: bool) -> list[Lane]:
    """Return the runs; the memory that is left is enough for the state of all sites."""
    how = pressure.scale(quick)
    return [how.lane(name, kind) for name, kind in KINDS.items()]


def measure(setting: Setting) -> Finding:
    return finding(by_turns(setting, NAME, lanes(setting.quick)), setting)


def finding(turns: Turns, setting: Setting) -> Finding:
    """In the paper, throughput falls to a quarter if nothing moves, and otherwise gets back to that of before."""
    seen, how = middles(turns), pressure.scale(setting.quick)
    records = {name: pressure.record(name, one, seen[UNDISTURBED], how) for name, one in seen.items()}
    rates = {name: pressure.steady(one, how) for name, one in seen.items()}
    waits = {name: pressure.delay(one, seen[UNDISTURBED], how) for name, one in seen.items()}
    bars = (
        Bar("results/s in the end, moved, of undisturbed", times(rates[MOVED], rates[UNDISTURBED]), "at least",
            OF_UNDISTURBED),
        Bar("results/s in the end, moved, of parked", times(rates[MOVED], rates[PARKED]), "at least", OF_PARKED),
        Bar("mean wait of a result, moved, of parked", times(waits[MOVED], waits[PARKED]), "at most", WAITS),
    )  # fmt: skip
    drawn = pressure.pictures(setting, NAME, TITLE, "half of the memory taken", seen, how)
    return Finding(tuple(records.values()), bars, all_equal(turns), drawn)


HALVED = Experiment(
    NAME,
    TITLE,
    SIMULATED
    + "Three quarters of the memory of each of eight sites are in use when another process takes half of that "
    "of site 0. Flux reports throughput and mean latency: with one of 32 sites disturbed, throughput fell to 23 % and "
    "latency rose from 45 µs to 0.24 s if nothing moved, and with moves both got back to what they had been.",
    COLUMNS,
    measure,
)
