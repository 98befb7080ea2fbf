"""`adapt-rounds`: how long rounds are, and rounds that find their length, under a skew of 80/20 (Flux, figure 8)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from penstock.kernels.hash import hash_columns
from penstock.state.directory import uniform
from penstock_bench.adapt.lanes import ALWAYS, SETTINGS, SITES, Lane, timelines
from penstock_bench.adapt.live_lanes import ROW_SECONDS
from penstock_bench.adapt.plots import write_curves
from penstock_bench.adapt.slowdown import Slowed
from penstock_bench.adapt.timeline import Timeline
from penstock_bench.adapt.variants import ROUNDS, steady_flux
from penstock_bench.adapt.watched_run import Option
from penstock_bench.experiments.experiment import Column, Experiment, Finding, Record, Setting
from penstock_bench.workloads.skewed import HOT

TITLE = "The length of rounds under a skew of 80/20"
SLOW = 2  # sites, where some are slowed
TUNED = "flux"
FIRST_LENGTH = 0.25  # of the rounds that are then tuned

# Rounds are whole epochs, so the epochs are as short as the shortest round.
SHORT_EPOCHS: dict[str, Option] = {
    "epoch_seconds": 0.25,
    "deadline_seconds": 0.25,
    "item_rows": 100,
    "buffer_rows": 5_000,
}

Seen = Sequence[tuple[Lane, Timeline]]


def measure(setting: Setting) -> Finding:
    rows, rounds, slowed = (6_000, ROUNDS[:1], (0,)) if setting.quick else (120_000, ROUNDS, (0, SLOW))
    lanes = [lane for count in slowed for lane in lanes_with(count, rounds)]
    return finding(list(timelines(setting, "adapt-rounds", rows, lanes)), setting)


def lanes_with(slow: int, rounds: Sequence[float]) -> list[Lane]:
    """The same sites slowed under each policy."""
    slowed = tuple(Slowed(site, 0.0, ALWAYS) for site in hottest_first()[:slow])
    fixed = [(steady_flux(seconds).name, seconds) for seconds in rounds]
    policies = [("static", 1.0), *fixed, (TUNED, FIRST_LENGTH)]
    return [
        Lane(name, slowed, seconds, workload=HOT.name, more=SHORT_EPOCHS, row_seconds=ROW_SECONDS)
        for name, seconds in policies
    ]


def hottest_first() -> list[int]:
    """The sites, from that of the most popular key on: as in the paper, that one is among those that are slowed."""
    groups = SETTINGS["groups_per_site"]
    assert isinstance(groups, int)
    hashed = int(hash_columns([pa.array([0], pa.int64())])[0])
    hot = next(site for site, part in uniform(SITES, groups).home_ranges() if part.low <= hashed < part.high)
    return [hot, *(site for site in range(SITES) if site != hot)]


def finding(seen: Seen, setting: Setting) -> Finding:
    records = tuple(_record(lane, timeline, seen) for lane, timeline in seen)
    return Finding(records, (), all(timeline.equal for _, timeline in seen), _pictures(records, setting))


def _record(lane: Lane, seen: Timeline, all_seen: Seen) -> Record:
    """Rates are over the whole run, as in the paper: what a policy does wrong at first counts."""
    rates = {other.policy: t.rate(0.0, t.seconds) for other, t in all_seen if other.slowed == lane.slowed}
    rate, best = rates[lane.policy], max(rate for policy, rate in rates.items() if policy not in ("static", TUNED))
    return {
        "slowed": len(lane.slowed),
        "policy": lane.policy,
        "round_seconds": lane.round_seconds if lane.policy not in ("static", TUNED) else None,
        "rate": rate,
        "of_static": rate / rates["static"],
        "of_best": rate / best,
        "moves": len(seen.moves()),
        "refused": seen.refused,
        "cpu": seen.cpu,
        "equal": seen.equal,
    }


def _pictures(records: Sequence[Record], setting: Setting) -> tuple[Path, ...]:
    if setting.pictures is None:
        return ()
    curves: dict[str, list[tuple[float, float]]] = {}
    for slow in sorted({int(str(r["slowed"])) for r in records}):
        own = [r for r in records if r["slowed"] == slow]
        lengths = [float(str(r["round_seconds"])) for r in own if r["round_seconds"] is not None]
        for record in own:
            rate, name = float(str(record["rate"])), f"{record['policy']}, {slow} slowed"
            if record["round_seconds"] is None:
                curves[name] = [(min(lengths), rate), (max(lengths), rate)]
            else:
                curves.setdefault(f"fixed, {slow} slowed", []).append((float(str(record["round_seconds"])), rate))
    path = setting.pictures / "adapt-rounds.png"
    return (write_curves(curves, TITLE, {}, path, ("seconds of a round", "rows per second"), marker="o"),)


ROUNDS_VARIED = Experiment(
    name="adapt-rounds",
    title=TITLE,
    note="Band join with a stream of few rows; 80 % of the rows have keys of a fifth of 16,384, and so on within "
    "these. A row costs 0.4 ms of sleep at its site, epochs are 0.25 s. Policy `flux` with rounds of one "
    "length, and with rounds that find theirs (`flux`), from 0.25 s on. Slowed: two of eight sites, that of the "
    "hottest key among them. Rates are over whole runs.",
    columns=(
        Column("slowed", "slowed"),
        Column("policy", "policy"),
        Column("round_seconds", "round s", ".2f"),
        Column("rate", "rows/s", ",.0f"),
        Column("of_static", "of static", ".0%"),
        Column("of_best", "of the best length", ".0%"),
        Column("moves", "moves"),
        Column("refused", "refused"),
        Column("cpu", "cores busy", ".0%"),
        Column("equal", "equal"),
    ),
    measure=measure,
)
