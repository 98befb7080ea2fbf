"""`adapt-elastic`: load that grows and shrinks, and a number of sites that follows it (window joins, figure 11)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from penstock_bench.adapt.arriving import Arrivals, Phase
from penstock_bench.adapt.live_lanes import ITEM_ROWS, ROWS_PER_SITE, LiveLane, live_runs
from penstock_bench.adapt.live_seen import LiveSeen, mean_delay
from penstock_bench.adapt.plots import write_curves
from penstock_bench.adapt.watched_run import Option
from penstock_bench.experiments.experiment import Bar, Column, Experiment, Finding, Record, Setting

TITLE = "Load that grows and shrinks, and sites that follow it"
LOADS = (1_500.0, 5_000.0, 10_000.0, 5_000.0, 1_500.0)  # rows a second
PHASE_SECONDS = 8.0
MOST = 8
ELASTIC, FIXED, ONE = "elastic", f"{MOST} sites", "1 site"
BAR = 1.0

SETTINGS: dict[str, Option] = {
    "epoch_seconds": 0.5,
    "deadline_seconds": 0.5,
    "item_rows": ITEM_ROWS,
    "buffer_rows": 2 * ROWS_PER_SITE,
    "round_seconds": 1.0,
}
GROUPS = 16 * MOST

Seen = Sequence[tuple[LiveLane, LiveSeen]]


def measure(setting: Setting) -> Finding:
    loads, seconds = ((1_000.0, 2_000.0), 1.0) if setting.quick else (LOADS, PHASE_SECONDS)
    arrivals = Arrivals(tuple(Phase(seconds, load) for load in loads))
    return finding(list(live_runs(setting, "adapt-elastic", lanes(arrivals))), setting)


def lanes(arrivals: Arrivals) -> list[LiveLane]:
    few = {**SETTINGS, "sites": 1, "groups_per_site": GROUPS}
    many = {**SETTINGS, "sites": MOST, "groups_per_site": GROUPS // MOST}
    return [
        LiveLane(ELASTIC, arrivals, {**few, "policy": "elastic", "least_sites": 1, "most_sites": MOST}),
        LiveLane(FIXED, arrivals, {**many, "policy": "static"}),
        LiveLane(ONE, arrivals, {**few, "policy": "static"}),
    ]


def finding(seen: Seen, setting: Setting) -> Finding:
    records = tuple(record for lane, one in seen for record in (*_phases(lane, one), _whole(lane, one)))
    overhead = {lane.name: one.overhead() for lane, one in seen}
    bar = Bar(f"overhead of all sites, `{ELASTIC}`, of {FIXED}", overhead[ELASTIC] / overhead[FIXED], "at most", BAR)
    return Finding(records, (bar,), all(one.timeline.equal for _, one in seen), _pictures(seen, setting))


def _phases(lane: LiveLane, seen: LiveSeen) -> Iterable[Record]:
    arrived = 0.0
    for number, (phase, (begin, end)) in enumerate(zip(lane.arrivals.phases, lane.arrivals.borders(), strict=True)):
        arrived += phase.rate * (end - begin)
        yield {
            "run": lane.name,
            "phase": str(number + 1),
            "load": phase.rate,
            "sites": seen.sites(begin, end),
            "behind": max(0.0, arrived - seen.done(end)),
            "delay": mean_delay(seen.arriving(begin, end)),
            "overhead": seen.overhead(begin, end),
            "equal": seen.timeline.equal,
        }


def _whole(lane: LiveLane, seen: LiveSeen) -> Record:
    """The whole run, until the last row was worked through."""
    end, phases = seen.timeline.seconds, lane.arrivals.phases
    return {
        "run": lane.name,
        "phase": "all",
        "load": sum(phase.rate * phase.seconds for phase in phases) / sum(phase.seconds for phase in phases),
        "sites": seen.sites(0.0, end),
        "behind": None,
        "delay": mean_delay(seen.produced),
        "overhead": seen.overhead(),
        "seconds": end,
        "equal": seen.timeline.equal,
    }


def _pictures(seen: Seen, setting: Setting) -> tuple[Path, ...]:
    """What a site can do is taken as the unit of load, so that both lines have one scale."""
    if setting.pictures is None:
        return ()
    lane, own = next((lane, one) for lane, one in seen if lane.name == ELASTIC)
    steps = list(zip(lane.arrivals.phases, lane.arrivals.borders(), strict=True))
    curves = {
        "load, in sites": [(at, phase.rate / ROWS_PER_SITE) for phase, border in steps for at in border],
        "sites": [(epoch.at, float(epoch.sites)) for epoch in own.timeline.epochs],
    }
    path = setting.pictures / "adapt-elastic.png"
    return (write_curves(curves, TITLE, {}, path, ("seconds", "sites")),)


ELASTIC_SITES = Experiment(
    name="adapt-elastic",
    title=TITLE,
    note="Band join, rows arrive in files every 0.1 s; a row costs 0.4 ms of sleep at its site. Policy "
    "`elastic` from one site to eight, beside eight and one that stay. Overhead: the time that tasks of all sites "
    "spent on anything but rows. Behind: rows that had arrived and were not worked through at the end of the phase. "
    "Delay: from the arrival of the newer row of a result until it is published.",
    columns=(
        Column("run", "run"),
        Column("phase", "phase"),
        Column("load", "rows/s", ",.0f"),
        Column("sites", "sites", ".1f"),
        Column("behind", "behind", ",.0f"),
        Column("delay", "delay s", ".2f"),
        Column("overhead", "overhead s", ".2f"),
        Column("seconds", "seconds", ".1f"),
        Column("equal", "equal"),
    ),
    measure=measure,
)
