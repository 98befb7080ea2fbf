"""Joins and aggregates over skewed keys, beside the same over uniform ones. Those of a benchmark without names do not
include them: the experiments on adapting ask for them.

DuckDB joins on the key and a span twice as long as the band is wide to either side, in two of which a row of the first
stream may find what is near.
"""

from __future__ import annotations

from dataclasses import replace

from penstock_bench.rows.skewed import SLOWLY, WANDERING
from penstock_bench.workload import Workload
from penstock_bench.workloads.flink_text import near
from penstock_bench.workloads.windows import TUMBLE

UNIFORM = "uniform"
WANDERING_KINDS = tuple(WANDERING)
SLOW_KINDS = tuple(f"{kind}{SLOWLY}" for kind in WANDERING)
KINDS = (UNIFORM, *WANDERING_KINDS)
JOIN, AGGREGATE = "join", "tumble"


def stream_of(kind: str) -> str:
    """The stream whose keys are of a kind."""
    return "a" if kind == UNIFORM else kind


def joined(name: str, title: str, stream: str, other: str, near_seconds: int) -> Workload:
    """Rows of two streams with equal keys, and at most so many seconds apart."""
    columns = "a.k AS k, a.ts AS a_ts, b.ts AS b_ts, a.v AS a_v, b.v AS b_v"
    span, band = 2_000_000 * near_seconds, f"INTERVAL '{near_seconds}' SECOND"
    condition = f"a.k = b.k AND b.ts BETWEEN a.ts - {band} AND a.ts + {band}"
    text = f"SELECT {columns} FROM {stream} AS a JOIN {other} AS b ON {condition}"
    near_spans = f"unnest([epoch_us(ts) // {span} - 1, epoch_us(ts) // {span}]) AS span"
    return Workload(
        name=name,
        title=title,
        streams=(stream, other),
        duckdb=f"""
            SELECT {columns} FROM (SELECT *, {near_spans} FROM {stream}) AS a
            JOIN (SELECT *, (epoch_us(ts) - {span // 2}) // {span} AS span FROM {other}) AS b
            ON a.span = b.span AND {condition}""",
        penstock=text,
        spark=text,
        flink=f"""
            SELECT a.k AS k, a.ts_us AS a_ts_us, b.ts_us AS b_ts_us, a.v AS a_v, b.v AS b_v
            FROM {stream} AS a JOIN {other} AS b ON a.k = b.k AND {near("b", "a", near_seconds, near_seconds)}""",
        identity=("k", "a_ts", "b_ts", "a_v", "b_v"),
    )


def _tumbling(kind: str) -> Workload:
    stream = stream_of(kind)
    return replace(
        TUMBLE,
        name=f"{AGGREGATE}-{kind}",
        title=f"10 s tumbling window, {kind} keys",
        streams=(stream,),
        duckdb=TUMBLE.duckdb.replace("FROM a ", f"FROM {stream} "),
        penstock=TUMBLE.penstock.replace("TUMBLE(a,", f"TUMBLE({stream},"),
        spark=str(TUMBLE.spark).replace("FROM a ", f"FROM {stream} "),
        flink=str(TUMBLE.flink).replace("TABLE a,", f"TABLE {stream},"),
    )


HOT = joined("join-hot", "band join, 5 s either side, 80/20 over 16,384 keys", "hot", "few", 5)
ALL = (
    *(
        joined(f"{JOIN}-{kind}", f"band join, 1 s either side, {kind} keys", stream_of(kind), "b", 1)
        for kind in (*KINDS, *SLOW_KINDS)
    ),
    *map(_tumbling, KINDS),
    HOT,
)
