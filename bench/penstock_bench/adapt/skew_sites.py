"""`adapt-skew-sites`: keys whose hot range wanders, on eight sites whose rows cost sleep: hot groups must move."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from penstock_bench.adapt.lanes import Lane, timelines
from penstock_bench.adapt.live_lanes import ITEM_ROWS, ROW_SECONDS
from penstock_bench.adapt.plots import write_curves
from penstock_bench.adapt.timeline import Timeline
from penstock_bench.adapt.watched_run import Option
from penstock_bench.experiments.experiment import Column, Experiment, Finding, Record, Setting
from penstock_bench.rows.stream import FILES
from penstock_bench.workloads.skewed import JOIN, KINDS, UNIFORM

TITLE = "Keys whose hot range wanders, on eight sites"
OWN = "even"
POLICIES = ("static", OWN)
WIDTH = 1.0  # of the intervals over which the picture tells rates

# Both streams come on alike, so that the hot range changes at one moment.
MORE: dict[str, Option] = {"item_rows": ITEM_ROWS, "buffer_rows": 5_000, "max_lead": "1s"}

Seen = Sequence[tuple[Lane, Timeline]]


def measure(setting: Setting) -> Finding:
    rows, kinds, policies = (8_000, (UNIFORM,), (OWN,)) if setting.quick else (200_000, KINDS, POLICIES)
    lanes = [lane_of(kind, policy) for kind in kinds for policy in policies]
    return finding(list(timelines(setting, "adapt-skew-sites", rows, lanes)), setting)


def lane_of(kind: str, policy: str) -> Lane:
    return Lane(policy, workload=f"{JOIN}-{kind}", more=MORE, row_seconds=ROW_SECONDS)


def kind_of(lane: Lane) -> str:
    return lane.workload.removeprefix(f"{JOIN}-")


def finding(seen: Seen, setting: Setting) -> Finding:
    usual = max(rate(timeline) for lane, timeline in seen if kind_of(lane) == UNIFORM)
    records = tuple(_record(lane, timeline, usual) for lane, timeline in seen)
    return Finding(records, (), all(timeline.equal for _, timeline in seen), _pictures(seen, setting))


def rate(seen: Timeline) -> float:
    """Rows that were worked through plus rows out, per second: what waits in buffers does not count yet."""
    return sum(epoch.done + epoch.rows_out for epoch in seen.epochs) / seen.seconds


def _record(lane: Lane, seen: Timeline, usual: float) -> Record:
    return {
        "keys": kind_of(lane),
        "policy": lane.policy,
        "rate": rate(seen),
        "of_uniform": rate(seen) / usual,
        "range_seconds": seen.seconds / FILES,
        "splits": seen.splits,
        "moves": len(seen.moves()),
        "cpu": seen.cpu,
        "equal": seen.equal,
    }


def _pictures(seen: Seen, setting: Setting) -> tuple[Path, ...]:
    if setting.pictures is None:
        return ()
    curves = {f"{kind_of(lane)}, {lane.policy}": timeline.curve(WIDTH) for lane, timeline in seen}
    return (write_curves(curves, TITLE, {}, setting.pictures / "adapt-skew-sites.png"),)


SKEW_SITES = Experiment(
    name="adapt-skew-sites",
    title=TITLE,
    note="Rows with equal keys at most 1 s apart, one input skewed, the other uniform; a row costs 0.4 ms of sleep at "
    "its site. 100,000 keys, ten hot ranges in a run, rounds of 2 s. One key of Zipf 1.5 has 38 % of the rows of its "
    "stream, so 19 % of all, and one site has to do them: more than 65 % of the uniform case is not possible "
    "without spreading that key.",
    columns=(
        Column("keys", "keys"),
        Column("policy", "policy"),
        Column("rate", "rows/s", ",.0f"),
        Column("of_uniform", "of uniform", ".0%"),
        Column("range_seconds", "s a hot range", ".1f"),
        Column("splits", "splits"),
        Column("moves", "moves"),
        Column("cpu", "cores busy", ".0%"),
        Column("equal", "equal"),
    ),
    measure=measure,
)
