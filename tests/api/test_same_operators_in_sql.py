"""Joins, unions and the like are the same plan in SQL and in Python."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.connectors.memory import MemoryConnector
from penstock.plan.fingerprint import describe
from penstock.plan.logical import Node
from penstock.sql import parse_script

SCHEMA = pa.schema(
    [("ts", pa.timestamp("us")), ("district", pa.int32()), ("caller", pa.string()), ("duration", pa.float64())]
)
CONNECTOR = MemoryConnector((SCHEMA.empty_table(),))
DECLARED = """CREATE SOURCE {} (ts TIMESTAMP, district INT, caller VARCHAR, duration DOUBLE,
  WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH (connector = 'memory');"""
CALLS, TEXTS = (ps.read.source(CONNECTOR, time="ts", progress=ps.slack("2s"), name=name) for name in ("calls", "texts"))
col = ps.col


@dataclass(frozen=True)
class MemoryOnly:
    def source(self, kind: str, options: dict[str, str], schema: pa.Schema | None) -> MemoryConnector:
        return CONNECTOR

    def sink(self, kind: str, options: dict[str, str]) -> Any:
        raise AssertionError("no sink is made here")


def sql_plan(query: str) -> Node:
    text = DECLARED.format("calls") + DECLARED.format("texts") + query
    return parse_script(text, connectors=MemoryOnly()).queries[-1][1]


PAIRS: list[tuple[str, Callable[[], ps.Stream]]] = [
    (
        """SELECT * FROM calls a JOIN texts b ON a.caller = b.caller
           AND b.ts BETWEEN a.ts - INTERVAL '1' SECOND AND a.ts + INTERVAL '5' SECOND""",
        lambda: CALLS.join(TEXTS, "caller", within=("1s", "5s"), prefix="b_"),
    ),
    (
        """SELECT * FROM calls a LEFT JOIN texts b ON a.caller = b.caller AND a.duration < b.duration
           AND b.ts BETWEEN a.ts - INTERVAL '5' SECOND AND a.ts + INTERVAL '5' SECOND""",
        lambda: CALLS.join(
            TEXTS, "caller", within="5s", kind="left", where=col("duration") < col("b_duration"), prefix="b_"
        ),
    ),
    (
        """SELECT * FROM calls a, texts b WHERE a.duration < b.duration
           AND b.ts BETWEEN a.ts - INTERVAL '1' SECOND AND a.ts + INTERVAL '1' SECOND""",
        lambda: CALLS.theta_join(TEXTS, col("duration") < col("b_duration"), within="1s", prefix="b_"),
    ),
    ("SELECT * FROM calls UNION ALL SELECT * FROM texts", lambda: CALLS.union(TEXTS)),
    ("SELECT DISTINCT ts, caller FROM calls", lambda: CALLS.select("ts", "caller").distinct()),
    ("SELECT * FROM TUMBLE(calls, ts, INTERVAL '10' SECOND)", lambda: CALLS.windowed(ps.tumbling("10s"))),
    (
        """SELECT caller, window_start, window_end, count(*) AS n FROM SESSION(calls, ts, INTERVAL '5' MINUTE)
           GROUP BY caller, window_start, window_end""",
        lambda: CALLS.group_by("caller").window(ps.session("5m")).agg(n=ps.count()),
    ),
    (
        "SELECT district, ts, count(*) AS n FROM calls GROUP BY district, ts",
        lambda: CALLS.group_by("district").at("ts").agg(n=ps.count()),
    ),
    (
        "SELECT district, window_start, count(*) AS n FROM calls [ROWS 100 SLIDE 10] GROUP BY district",
        lambda: CALLS.group_by("district").window(ps.rows(100, every=10)).agg(n=ps.count()),
    ),
    (
        """SELECT caller FROM TUMBLE(calls, ts, INTERVAL '10' SECOND)
           QUALIFY ROW_NUMBER() OVER (PARTITION BY window_start, district ORDER BY duration DESC) <= 3""",
        lambda: CALLS.windowed(ps.tumbling("10s")).top(3, ps.desc("duration"), keys=["district"]).select("caller"),
    ),
]


@pytest.mark.parametrize(("query", "build"), PAIRS)
def test_the_plans_are_equal(query: str, build: Callable[[], ps.Stream]) -> None:
    assert describe(sql_plan(query)) == describe(build().node)
