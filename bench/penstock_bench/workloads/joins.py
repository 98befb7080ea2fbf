"""Joins: rows whose times are near each other and, but for the theta join, whose keys are equal.

The three-way join is a star: `b` and `c` within 5 s of `a`. So each band is between two streams, which is what all
systems can be asked. Spark refuses a join whose input has two watermarked times; its text turns the time of `b` into a
number before `c` is joined, and back into a time at the end. DuckDB is fastest where it joins on the key and a span of
10 s, in two of which a row of `a` may find what is near.
"""

from __future__ import annotations

from penstock_bench.rows.wide import WIDE_NAMES
from penstock_bench.workload import Refused, Workload
from penstock_bench.workloads.flink_text import near

_BAND = "BETWEEN a.ts - INTERVAL '5' SECOND AND a.ts + INTERVAL '5' SECOND"
_NARROW_BAND = "BETWEEN a.ts - INTERVAL '1' SECOND AND a.ts + INTERVAL '1' SECOND"

_NEAR_SPANS = "unnest([epoch_us(ts) // 10000000 - 1, epoch_us(ts) // 10000000]) AS span"
_OWN_SPAN = "(epoch_us(ts) - 5000000) // 10000000 AS span"

_BAND_JOIN = f"""
        SELECT a.k AS k, a.ts AS a_ts, b.ts AS b_ts, a.v AS a_v, b.v AS b_v
        FROM a JOIN b ON a.k = b.k AND b.ts {_BAND}"""

BAND = Workload(
    name="band",
    title="band join, 5 s either side, 100,000 keys",
    streams=("a", "b"),
    duckdb=f"""
        SELECT a.k AS k, a.ts AS a_ts, b.ts AS b_ts, a.v AS a_v, b.v AS b_v
        FROM (SELECT *, {_NEAR_SPANS} FROM a) a
        JOIN (SELECT *, {_OWN_SPAN} FROM b) b ON a.k = b.k AND a.span = b.span AND b.ts {_BAND}""",
    penstock=_BAND_JOIN,
    spark=_BAND_JOIN,
    flink=f"""
        SELECT a.k AS k, a.ts_us AS a_ts_us, b.ts_us AS b_ts_us, a.v AS a_v, b.v AS b_v
        FROM a JOIN b ON a.k = b.k AND {near("b", "a", 5, 5)}""",
    identity=("k", "a_ts", "b_ts", "a_v", "b_v"),
)

_THREE_WAY_COLUMNS = "a.k AS k, a.ts AS a_ts, b.ts AS b_ts, c.ts AS c_ts, a.v AS a_v, b.v AS b_v, c.v AS c_v"
_THREE_WAY_JOIN = f"""
        SELECT {_THREE_WAY_COLUMNS}
        FROM a JOIN b ON a.k = b.k AND b.ts {_BAND} JOIN c ON a.k = c.k AND c.ts {_BAND}"""

THREE_WAY = Workload(
    name="three-way",
    title="three-way join on one key, 5 s bands",
    streams=("a", "b", "c"),
    duckdb=f"""
        SELECT a.k AS k, a.ts AS a_ts, b_ts, c.ts AS c_ts, a.v AS a_v, b_v, c.v AS c_v
        FROM (
            SELECT a.k AS k, a.ts AS ts, a.v AS v, b.ts AS b_ts, b.v AS b_v, {_NEAR_SPANS.replace("(ts)", "(a.ts)")}
            FROM (SELECT *, {_NEAR_SPANS} FROM a) a
            JOIN (SELECT *, {_OWN_SPAN} FROM b) b ON a.k = b.k AND a.span = b.span AND b.ts {_BAND}
        ) a JOIN (SELECT *, {_OWN_SPAN} FROM c) c ON a.k = c.k AND a.span = c.span AND c.ts {_BAND}""",
    penstock=_THREE_WAY_JOIN,
    spark=f"""
        SELECT a.k AS k, a.ts AS a_ts, timestamp_micros(a.b_us) AS b_ts, c.ts AS c_ts, a.v AS a_v, b_v, c.v AS c_v
        FROM (
            SELECT a.k AS k, a.ts AS ts, a.v AS v, unix_micros(b.ts) AS b_us, b.v AS b_v
            FROM a JOIN b ON a.k = b.k AND b.ts {_BAND}
        ) a JOIN c ON a.k = c.k AND c.ts {_BAND}""",
    flink=f"""
        SELECT a.k AS k, a.ts_us AS a_ts_us, b.ts_us AS b_ts_us, c.ts_us AS c_ts_us, a.v AS a_v, b.v AS b_v, c.v AS c_v
        FROM a JOIN b ON a.k = b.k AND {near("b", "a", 5, 5)} JOIN c ON a.k = c.k AND {near("c", "a", 5, 5)}""",
    identity=("k", "a_ts", "b_ts", "c_ts", "a_v", "b_v", "c_v"),
)

# About half a percent of the pairs in the band are far enough apart.
_THETA_JOIN = f"""
        SELECT a.k AS a_k, b.k AS b_k, a.ts AS a_ts, b.ts AS b_ts, a.v AS a_v, b.v AS b_v
        FROM a JOIN b ON b.v > a.v + 90 AND b.ts {_NARROW_BAND}"""

THETA = Workload(
    name="theta",
    title="theta join on an inequality, 1 s either side",
    streams=("a", "b"),
    duckdb=_THETA_JOIN,
    penstock=_THETA_JOIN,
    spark=Refused("a stream-stream join needs an equality"),
    flink=Refused("an interval join needs an equality, and a join without one keeps all rows for ever"),
    identity=("a_k", "b_k", "a_ts", "b_ts", "a_v", "b_v"),
    share=0.02,
)

_WIDE_COLUMNS = ", ".join(f"wide.{name} AS {name}" for name in WIDE_NAMES)
_WIDE_JOIN = f"""
        SELECT a.k AS k, a.ts AS a_ts, a.v AS v, wide.ts AS ts, {_WIDE_COLUMNS}
        FROM a JOIN wide ON a.k = wide.k AND wide.ts {_BAND}"""

WIDE = Workload(
    name="wide",
    title="band join with rows of 50 columns, 5 s either side",
    streams=("a", "wide"),
    duckdb=_WIDE_JOIN,
    penstock=_WIDE_JOIN,
    spark=_WIDE_JOIN,
    flink=f"""
        SELECT a.k AS k, a.ts_us AS a_ts_us, a.v AS v, wide.ts_us AS ts_us, {_WIDE_COLUMNS}
        FROM a JOIN wide ON a.k = wide.k AND {near("wide", "a", 5, 5)}""",
    identity=("k", "a_ts", "v", "ts", *WIDE_NAMES),
    share=0.3,
)

ALL = (BAND, THREE_WAY, THETA, WIDE)
