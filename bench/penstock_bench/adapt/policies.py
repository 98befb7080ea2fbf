"""`adapt-policies`: all policies on the same disturbances, by turns; the default must be near the best of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

from penstock_bench.adapt.degrading import OWN, steady
from penstock_bench.adapt.lanes import Lane, slow_sites, timelines
from penstock_bench.adapt.plots import points, write_curves
from penstock_bench.adapt.rotating import rotation
from penstock_bench.adapt.skew import QUERIES
from penstock_bench.adapt.skew import ROWS as FREE_ROWS
from penstock_bench.adapt.skew_lanes import SkewCase, trials
from penstock_bench.adapt.skew_sites import lane_of, rate
from penstock_bench.adapt.slowdown import Slowed
from penstock_bench.adapt.timeline import Timeline
from penstock_bench.experiments.experiment import Bar, Column, Experiment, Finding, Record, Setting
from penstock_bench.workloads.skewed import SLOW_KINDS, WANDERING_KINDS

TITLE = "All policies on the same disturbances"
POLICIES = ("static", "flux", "diffusion", "memory", OWN)  # where memory is not bounded, `hybrid` is `flux`
TURNS, FREE_TURNS = 5, 15  # runs that sleep are long, and differ less from each other
BAR = 0.95
ROWS, SKEWED_ROWS = 500_000, 100_000
ROUND = 1.0  # seconds: short runs must have some


@dataclass(frozen=True)
class Case:
    """A disturbance: the run of a policy under it, over so many rows of each stream, and the rate that counts."""

    name: str
    lane: Callable[[str], Lane]
    rows: int
    rate: Callable[[Timeline], float]


def _slowed(name: str, slowed: tuple[Slowed, ...]) -> Case:
    return Case(name, lambda policy: Lane(policy, slowed, ROUND), ROWS, steady)


def _skewed(kind: str) -> Case:
    return Case(f"{kind.replace('_', ' ')} keys", lambda policy: lane_of(kind, policy), SKEWED_ROWS, rate)


CASES = (
    *(_skewed(kind) for kind in (*SLOW_KINDS, WANDERING_KINDS[-1])),
    _slowed("none", ()),
    _slowed("1 of 8 slowed", slow_sites(1)),
    _slowed("4 of 8 slowed", slow_sites(4)),
    _slowed("rotating", rotation(120.0)),
)


@dataclass(frozen=True)
class Tried:
    case: str
    policy: str
    rate: float
    changes: int
    cpu: float | None
    equal: bool


def measure(setting: Setting) -> Finding:
    """The short ones first."""
    free = [] if setting.quick else list(_free_trials(setting))
    cases = CASES[-1:] if setting.quick else CASES
    return finding([*free, *(tried for case in cases for tried in _trials(setting, case))], setting)


def _free_trials(setting: Setting) -> Iterable[Tried]:
    """The queries of `adapt-skew`, whose rows cost what they cost, on two sites."""
    kinds = [(query, kind) for query in QUERIES for kind in WANDERING_KINDS]
    cases = [SkewCase(query, kind, policy, FREE_ROWS) for query, kind in kinds for policy in by_turns(FREE_TURNS)]
    for seen in trials(setting, cases, 1):
        yield Tried(f"{seen.query}, {seen.kind} keys, free", seen.run, seen.rate, seen.changes, None, seen.equal)


def _trials(setting: Setting, case: Case) -> Iterable[Tried]:
    rows, turns = (20_000, 1) if setting.quick else (case.rows, TURNS)
    setting.tell(f"disturbance: {case.name}")
    lanes = [case.lane(policy) for policy in by_turns(turns)]
    for lane, seen in timelines(setting, "adapt-policies", rows, lanes):
        setting.tell(f"  {case.rate(seen):,.0f} rows/s count")
        yield Tried(case.name, lane.policy, case.rate(seen), len(seen.changes), seen.cpu, seen.equal)


def by_turns(count: int) -> Iterable[str]:
    """Every policy once in a turn, each time another one first: what the machine does meanwhile meets them all."""
    for turn in range(count):
        first = turn % len(POLICIES)
        yield from (*POLICIES[first:], *POLICIES[:first])


def finding(tried: Sequence[Tried], setting: Setting) -> Finding:
    cases = enumerate(dict.fromkeys(one.case for one in tried), start=1)
    records = tuple(record for number, case in cases for record in _records(number, case, tried))
    bars = tuple(
        Bar(f"{record['case']}: `{OWN}`, of the best policy", float(str(record["of_best"])), "at least", BAR)
        for record in records
        if record["policy"] == OWN
    )
    return Finding(records, bars, all(one.equal for one in tried), _pictures(records, setting))


def _records(number: int, case: str, tried: Sequence[Tried]) -> Iterable[Record]:
    parts = relative(case, tried)
    best = max(parts.values())
    return (_record(number, part / best, _of(case, policy, tried)) for policy, part in parts.items())


def _record(number: int, of_best: float, own: Sequence[Tried]) -> Record:
    """Of the runs of one policy under one disturbance."""
    rates, busy = [one.rate for one in own], [one.cpu for one in own if one.cpu is not None]
    return {
        "number": number,
        "case": own[0].case,
        "policy": own[0].policy,
        "rate": median(rates),
        "least": min(rates),
        "most": max(rates),
        "of_best": of_best,
        "changes": int(median(one.changes for one in own)),
        "cpu": median(busy) if busy else None,
        "equal": all(one.equal for one in own),
    }


def relative(case: str, tried: Sequence[Tried]) -> dict[str, float]:
    """The median rate of each policy, as a part of the mean of its turn: a turn takes seconds, and the machine gets
    faster and slower over minutes."""
    rates = {policy: [one.rate for one in _of(case, policy, tried)] for policy in POLICIES}
    means = [fmean(turn) for turn in zip(*rates.values(), strict=True)]
    return {policy: median(rate / mean for rate, mean in zip(rates[policy], means, strict=True)) for policy in POLICIES}


def _of(case: str, policy: str, tried: Sequence[Tried]) -> list[Tried]:
    return [one for one in tried if (one.case, one.policy) == (case, policy)]


def _pictures(records: Sequence[Record], setting: Setting) -> tuple[Path, ...]:
    """One curve for each policy over the disturbances, which are numbered in the order of the table."""
    if setting.pictures is None:
        return ()
    curves = {policy: points(records, "number", "of_best", policy=policy) for policy in POLICIES}
    labels = ("disturbance, in the order of the table", "rate, of the best policy")
    return (write_curves(curves, TITLE, {}, setting.pictures / "adapt-policies.png", labels, marker="o"),)


ALL_POLICIES = Experiment(
    name="adapt-policies",
    title=TITLE,
    note="Joins on eight sites whose rows cost sleep, all policies by turns, medians of five. Slowed sites are half as "
    "fast from the beginning, rotating is one after the other for two seconds, and skewed keys have a hot range that "
    "wanders: every one or two seconds, or, slowly, every six to ten, which are three to five rounds. Free: the "
    "queries of `adapt-skew`, two sites, nothing slept, medians of fifteen; hot ranges are shorter there than rounds, "
    "and what is seen are prices of policies. Steady rates, and for skewed and free rows in plus rows out of the "
    "whole run. Of the best: by rates as parts of the mean of their turn.",
    columns=(
        Column("case", "disturbance"),
        Column("policy", "policy"),
        Column("rate", "rows/s", ",.0f"),
        Column("least", "least", ",.0f"),
        Column("most", "most", ",.0f"),
        Column("of_best", "of the best", ".0%"),
        Column("changes", "changes"),
        Column("cpu", "cores busy", ".0%"),
        Column("equal", "equal"),
    ),
    measure=measure,
)
