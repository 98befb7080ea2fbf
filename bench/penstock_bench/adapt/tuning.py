"""`adapt-tuning`: groups that are split where they are too large or too hot, and groups that are not, over the rate of
arrival (window joins, figures 7 and 8)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from penstock_bench.adapt.arriving import Arrivals, Phase
from penstock_bench.adapt.live_lanes import ITEM_ROWS, ROWS_PER_SITE, LiveLane, live_runs
from penstock_bench.adapt.live_seen import LiveSeen, delay_below, mean_delay
from penstock_bench.adapt.plots import points, write_curves
from penstock_bench.adapt.variants import TUNED, UNTUNED
from penstock_bench.adapt.watched_run import Option
from penstock_bench.experiments.experiment import Column, Experiment, Finding, Record, Setting

TITLE = "Fine tuning of groups, off and on"
RATES = (3_000.0, 5_000.0, 6_000.0, 7_000.0)  # rows a second; four sites do 10,000
SECONDS = 20.0
SETTLED = 8.0  # from when on delays count: until then groups are split and moved
BIAS = 0.9

# One group a site: what a query has that was begun with few.
SETTINGS: dict[str, Option] = {
    "sites": 4,
    "groups_per_site": 1,
    "epoch_seconds": 0.5,
    "deadline_seconds": 0.5,
    "item_rows": ITEM_ROWS,
    "buffer_rows": 4 * ROWS_PER_SITE,
    "round_seconds": 1.0,
}

Seen = Sequence[tuple[LiveLane, LiveSeen]]


def measure(setting: Setting) -> Finding:
    rates, seconds, settled = ((2_000.0,), 1.0, 0.0) if setting.quick else (RATES, SECONDS, SETTLED)
    lanes = [lane_of(policy, rate, seconds) for rate in rates for policy in (UNTUNED, TUNED)]
    return finding(list(live_runs(setting, "adapt-tuning", lanes)), settled, setting)


def lane_of(policy: str, rate: float, seconds: float) -> LiveLane:
    return LiveLane(policy, Arrivals((Phase(seconds, rate),), BIAS), {**SETTINGS, "policy": policy})


def finding(seen: Seen, settled: float, setting: Setting) -> Finding:
    records = tuple(_record(lane, one, settled) for lane, one in seen)
    return Finding(records, (), all(one.timeline.equal for _, one in seen), _pictures(records, setting))


def _record(lane: LiveLane, seen: LiveSeen, settled: float) -> Record:
    counted = seen.arriving(settled, float("inf"))
    rows = sum(epoch.rows_in for epoch in seen.timeline.epochs)
    return {
        "rate": lane.rate,
        "tuning": "on" if lane.name == TUNED else "off",
        "splits": seen.timeline.splits,
        "moves": len(seen.timeline.moves()),
        "delay": mean_delay(counted),
        "delay_99": delay_below(counted, 0.99),
        "cpu_per_million": seen.cpu_seconds / rows * 1e6,
        "equal": seen.timeline.equal,
    }


def _pictures(records: Sequence[Record], setting: Setting) -> tuple[Path, ...]:
    if setting.pictures is None:
        return ()
    return tuple(
        write_curves(
            {f"tuning {way}": points(records, "rate", key, tuning=way) for way in ("off", "on")},
            title, {}, setting.pictures / f"adapt-tuning-{key}.png", ("rows per second", label), marker="o",
        )
        for key, title, label in (
            ("delay", "Production delay", "seconds, on average"),
            ("cpu_per_million", "Processor time", "seconds for a million rows"),
        )
    )  # fmt: skip


TUNING = Experiment(
    name="adapt-tuning",
    title=TITLE,
    note="Band join of a stream with skewed keys (b-model 0.9) and a uniform one, rows arrive in files every 0.1 s; a "
    "row costs 0.4 ms of sleep at one of four sites, which have one group each at first. Policy `even`, "
    "which moves groups; with fine tuning it also splits those that are too hot, or hold more than 2,000 rows. Delay: "
    "from the arrival of the newer row of a result until it is published, once 8 s are over. Processor time is that of "
    "all processes.",
    columns=(
        Column("rate", "rows/s", ",.0f"),
        Column("tuning", "tuning"),
        Column("splits", "splits"),
        Column("moves", "moves"),
        Column("delay", "delay s", ".2f"),
        Column("delay_99", "99 % s", ".2f"),
        Column("cpu_per_million", "cpu s/M rows", ".2f"),
        Column("equal", "equal"),
    ),
    measure=measure,
)
