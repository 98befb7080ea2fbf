"""The same query in SQL and in Python is the same plan: equal nodes over an equal source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.api.streams import Stream
from penstock.connectors.memory import MemoryConnector
from penstock.plan.fingerprint import describe
from penstock.plan.logical import Node
from penstock.sql import parse_script

SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us")),
        ("district", pa.int32()),
        ("caller", pa.string()),
        ("duration", pa.float64()),
        ("price", pa.decimal128(8, 2)),
    ]
)
CONNECTOR = MemoryConnector((SCHEMA.empty_table(),))
DECLARED = """CREATE SOURCE calls (ts TIMESTAMP, district INT, caller VARCHAR, duration DOUBLE, price DECIMAL(8, 2),
  WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH (connector = 'memory');"""
CALLS = ps.read.source(CONNECTOR, time="ts", progress=ps.slack("2s"), name="calls")
col = ps.col


@dataclass(frozen=True)
class MemoryOnly:
    def source(self, kind: str, options: dict[str, str], schema: pa.Schema | None) -> MemoryConnector:
        return CONNECTOR

    def sink(self, kind: str, options: dict[str, str]) -> Any:
        raise AssertionError("no sink is made here")


def sql_plan(query: str) -> Node:
    return parse_script(DECLARED + query, connectors=MemoryOnly()).queries[-1][1]


def per_district(stream: Stream = CALLS) -> Any:
    return stream.group_by("district").window(ps.tumbling("10s"))


BY_DISTRICT = "FROM TUMBLE(calls, ts, INTERVAL '10' SECOND) GROUP BY district, window_start"

PAIRS: list[tuple[str, Callable[[], Stream]]] = [
    (
        """SELECT district, window_start, count(*) AS n, avg(duration) AS mean
           FROM HOP(calls, ts, INTERVAL '10' SECOND, INTERVAL '1' MINUTE) GROUP BY district, window_start""",
        lambda: CALLS.group_by("district")
        .window(ps.sliding("1m", every="10s"))
        .agg(n=ps.count(), mean=ps.avg("duration")),
    ),
    (
        "SELECT district, window_start, count(*) AS n FROM calls [RANGE 1 MINUTE SLIDE 10 SECONDS] GROUP BY district",
        lambda: CALLS.group_by("district").window(ps.sliding("1m", every="10s")).agg(n=ps.count()),
    ),
    ("SELECT * FROM calls", lambda: CALLS),
    ("SELECT * FROM calls WHERE duration > 60", lambda: CALLS.where(col("duration") > 60)),
    ("SELECT ts, caller FROM calls", lambda: CALLS.select("ts", "caller")),
    (
        "SELECT ts, duration / 60, (district + 1) * 2 AS d FROM calls",
        lambda: CALLS.select("ts", col("duration") / 60, d=(col("district") + 1) * 2),
    ),
    (
        "SELECT ts, lower(caller) AS who FROM calls WHERE caller LIKE 'A%' AND NOT (district = 3 OR duration IS NULL)",
        lambda: CALLS.where(
            col("caller").like("A%") & ~((col("district") == 3) | col("duration").is_null())
        ).select("ts", who=ps.call("lower", col("caller"))),
    ),
    (
        """SELECT ts, CASE WHEN duration > 60 THEN 'long' WHEN duration > 10 THEN 'mid' ELSE 'short' END AS size
           FROM calls""",
        lambda: CALLS.select(
            "ts", size=ps.when(col("duration") > 60, "long").when(col("duration") > 10, "mid").otherwise("short")
        ),
    ),
    (
        """SELECT ts FROM calls WHERE district IN (1, 2) AND duration BETWEEN 1 AND 2
           AND ts >= TIMESTAMP '2024-01-01 00:00:00' AND price <> 0.5 AND caller IS NOT NULL""",
        lambda: CALLS.where(
            col("district").is_in([1, 2])
            & col("duration").between(1, 2)
            & (col("ts") >= datetime(2024, 1, 1))
            & (col("price") != Decimal("0.5"))
            & col("caller").is_not_null()
        ).select("ts"),
    ),
    (
        """SELECT ts + INTERVAL '90' SECOND AS later, CAST(district AS BIGINT) AS d, -district AS m, -5 AS five
           FROM calls""",
        lambda: CALLS.select(
            later=col("ts") + timedelta(seconds=90),
            d=col("district").cast("BIGINT"),
            m=-col("district"),
            five=ps.lit(-5),
        ),
    ),
    (
        "SELECT TRY_CAST(caller AS INT) AS n, CAST(caller AS STRING) AS s, EXTRACT(HOUR FROM ts) AS hour FROM calls",
        lambda: CALLS.select(
            n=col("caller").cast("int", lenient=True),
            s=col("caller").cast("string"),
            hour=ps.call("date_part", "hour", col("ts")),
        ),
    ),
    (
        f"""SELECT district, window_start, count(duration) AS a, count(DISTINCT caller) AS b, sum(duration) AS c,
              min(ts) AS d, max(price) AS e, stddev(duration) AS f, stddev_pop(duration) AS g, variance(duration) AS h,
              var_pop(duration) AS i, first(caller) AS j, last(caller) AS k {BY_DISTRICT}""",
        lambda: per_district().agg(
            a=ps.count("duration"),
            b=ps.count_distinct("caller"),
            c=ps.sum("duration"),
            d=ps.min("ts"),
            e=ps.max("price"),
            f=ps.stddev("duration"),
            g=ps.stddev_pop("duration"),
            h=ps.variance("duration"),
            i=ps.var_pop("duration"),
            j=ps.first("caller"),
            k=ps.last("caller"),
        ),
    ),
    (
        f"SELECT district, window_start, sum(price * district) AS total {BY_DISTRICT}",
        lambda: per_district().agg(total=ps.sum(col("price") * col("district"))),
    ),
    (
        """SELECT window_start, count(*) AS n
           FROM TUMBLE(calls, ts, INTERVAL '1' DAY, INTERVAL '6' HOUR) GROUP BY window_start""",
        lambda: CALLS.window(ps.tumbling("1d", offset="6h")).agg(n=ps.count()),
    ),
    (
        """SELECT district % 10 AS area, window_start, count(*) AS n
           FROM TUMBLE(calls, ts, INTERVAL '10' SECOND) WHERE duration > 1 GROUP BY area, window_start""",
        lambda: CALLS.where(col("duration") > 1)
        .group_by(area=col("district") % 10)
        .window(ps.tumbling("10s"))
        .agg(n=ps.count()),
    ),
    (
        """SELECT upper(caller), window_start, count(*) AS n
           FROM TUMBLE(calls, ts, INTERVAL '10' SECOND) GROUP BY upper(caller), window_start""",
        lambda: CALLS.group_by(ps.call("upper", col("caller"))).window(ps.tumbling("10s")).agg(n=ps.count()),
    ),
    (
        """SELECT (district + 1) * 2, window_start, count(*) AS n
           FROM TUMBLE(calls, ts, INTERVAL '10' SECOND) GROUP BY 1, 2""",
        lambda: CALLS.group_by((col("district") + 1) * 2).window(ps.tumbling("10s")).agg(n=ps.count()),
    ),
    (
        f"SELECT district, window_end, n AS calls FROM (SELECT district, window_end, count(*) AS n {BY_DISTRICT})",
        lambda: per_district().agg(n=ps.count()).select("district", "window_end", "n").select(
            "district", "window_end", calls=col("n")
        ),
    ),
    (
        f"SELECT district, window_start, window_end, count(*) AS n {BY_DISTRICT}",
        lambda: per_district().agg(n=ps.count()).select("district", "window_start", "window_end", "n"),
    ),
    (
        f"""SELECT window_start, n * 2 AS twice
            FROM (SELECT district, window_start, count(*) AS n {BY_DISTRICT}) WHERE n > 1""",
        lambda: per_district().agg(n=ps.count()).select("district", "window_start", "n").where(col("n") > 1).select(
            "window_start", twice=col("n") * 2
        ),
    ),
    (
        f"""SELECT district, window_start, sum(duration) AS s, count(*) AS n, sum(duration) / count(*) AS mean
            {BY_DISTRICT}""",
        lambda: per_district()
        .agg(s=ps.sum("duration"), n=ps.count())
        .select("district", "window_start", "s", "n", mean=col("s") / col("n")),
    ),
    (
        f"SELECT district, window_start, count(*) AS n {BY_DISTRICT} HAVING count(*) > 10",
        lambda: per_district().agg(n=ps.count()).where(col("n") > 10),
    ),
    (
        f"""SELECT district, window_end, count(*) AS n {BY_DISTRICT}
            HAVING n > 10 AND window_end < TIMESTAMP '2024-01-01'""",
        lambda: per_district()
        .agg(n=ps.count())
        .where((col("n") > 10) & (col("window_end") < datetime(2024, 1, 1)))
        .select("district", "window_end", "n"),
    ),
    (
        """CREATE VIEW long_calls AS SELECT ts AS at, caller FROM calls WHERE duration > 60;
           SELECT caller, window_start, count(*) AS n
           FROM TUMBLE(long_calls, at, INTERVAL '10' SECOND) GROUP BY caller, window_start""",
        lambda: CALLS.where(col("duration") > 60)
        .select(at=col("ts"), caller=col("caller"))
        .group_by("caller")
        .window(ps.tumbling("10s"))
        .agg(n=ps.count()),
    ),
    (
        f"SELECT district, window_start, count(*) FILTER (WHERE duration > 60) AS n {BY_DISTRICT}",
        lambda: per_district().agg(n=ps.count(ps.when(col("duration") > 60, 1).otherwise(None))),
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("query", "stream"), PAIRS, ids=lambda part: " ".join(part.split()) if isinstance(part, str) else ""
)
def test_sql_and_python_give_equal_plans(query: str, stream: Callable[[], Stream]) -> None:
    ours = stream().node
    assert sql_plan(query) == ours
    # In Python 1, 1.0 and True are equal; in a query they are not.
    assert describe(sql_plan(query)) == describe(ours)


def test_different_queries_have_different_plans() -> None:
    plans = [describe(sql_plan(query)) for query, _ in PAIRS]
    assert all(a != b for n, a in enumerate(plans) for b in plans[:n])
