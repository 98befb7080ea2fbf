"""`overflow-peers`: a join whose state is ten times the memory, on Penstock and on its peers."""

from __future__ import annotations

from collections.abc import Sequence

from penstock_bench.experiments.experiment import Bar, Column, Experiment, Finding, Record, Setting
from penstock_bench.peers.peers import PEERS, Tried, attempt
from penstock_bench.peers.rows import prepared
from penstock_bench.peers.scale import FULL, MEGABYTE, QUICK, Scale
from penstock_bench.peers.texts import answer

MEMORY_BAR = 1.2


def measure(setting: Setting) -> Finding:
    scale = QUICK if setting.quick else FULL
    folder = setting.folder(f"overflow-peers-{scale.rows}")
    setting.tell(f"the rows of the join, {scale.state / 1e9:.2f} GB, and its right answer ...")
    expected = answer(prepared(folder, scale), folder / "spill")
    tried = []
    for peer in PEERS:
        setting.tell(f"{peer.name}, {scale.memory // MEGABYTE} MB for {scale.state // MEGABYTE} MB of state ...")
        tried.append(attempt(peer, scale, folder, expected))
        setting.tell(f"  {tried[-1].ending.text}")
    return finding(tried, scale)


def finding(tried: Sequence[Tried], scale: Scale) -> Finding:
    """Return the table, and whether Penstock finished within its memory."""
    ours = [one for one in tried if one.peer.kind == "penstock"]
    finished = Bar(
        "Penstock finished with the batch answer",
        sum(one.ending.kind == "finished" for one in ours) / len(ours),
        "at least",
        1.0,
    )
    worst = max(_above_idle(one) for one in ours) / (scale.memory / scale.sites)
    memory = Bar("what a worker of Penstock took beyond an idle one, of its memory", worst, "at most", MEMORY_BAR)
    equal = all(one.ending.kind != "not equal" for one in tried)
    return Finding(tuple(_record(one, scale) for one in tried), (finished, memory), equal)


def _above_idle(one: Tried) -> int:
    if one.seen is None:
        return 0
    first, most = one.seen.worker
    return most - first


def _record(one: Tried, scale: Scale) -> Record:
    done = {
        "rows": one.rows,
        "seconds": one.seconds,
        "rows_per_second": one.rows / one.seconds if one.seconds else None,
    }
    told: Record = {
        "system": one.peer.name,
        "ending": one.ending.text,
        "kind": one.ending.kind,
        "given": one.peer.given,
    }
    if one.seen is None:
        return told
    seen = one.seen
    memory = {"idle": seen.idle / 1e6, "peak": seen.peak / 1e6, "of_memory": (seen.peak - seen.idle) / scale.memory}
    return {**told, **done, **memory, "results": one.results}


OVERFLOW_PEERS = Experiment(
    name="overflow-peers",
    title="State of ten times the memory: Penstock, Spark and Flink on one join",
    note="A join of three streams of D-Cape's generator that keeps all rows, 2 GB in 200 MB for state; one run each, "
    "in processes of its own on two cores, from the start of the query; only Penstock has joined a few rows before. "
    "Every JVM has 512 MB of heap beside that. "
    "Memory is that of all processes of a system, sampled twice a second from outside, without mapped input: idle, "
    "when the query starts, and at most. A system is ended after 300 s, or when it makes no progress for 90 s.",
    columns=(
        Column("system", "system"),
        Column("rows_per_second", "rows/s", ",.0f"),
        Column("seconds", "seconds", ",.1f"),
        Column("rows", "rows", ","),
        Column("idle", "idle MB", ",.0f"),
        Column("peak", "peak MB", ",.0f"),
        Column("ending", "how it ended"),
    ),
    measure=measure,
)
