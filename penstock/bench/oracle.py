"""The right answer, by DuckDB in batch over the same files, and the comparison of a system's result with it.

All SQL here is made of the workloads' own names and numbers; paths travel as parameters.
"""

from __future__ import annotations

from pathlib import Path

import duckdb

from penstock.bench.systems import count_rows
from penstock.bench.workloads import SLACK_SECONDS, WindowAggregate, Workload

TOLERANCE = 1e-9
TIMES = frozenset({"window_start"})  # the identity columns that are times
_SECOND = 1_000_000


def session(threads: int = 2) -> duckdb.DuckDBPyConnection:
    """A DuckDB of its own, in memory, in UTC."""
    connection = duckdb.connect(config={"threads": threads})
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def rows_in(workload: Workload, data_dir: Path) -> int:
    """How many rows the workload reads."""
    return sum(count_rows(data_dir / stream) for stream in workload.streams)


def batch_answer(connection: duckdb.DuckDBPyConnection, workload: Workload, data_dir: Path) -> duckdb.DuckDBPyRelation:
    """All result rows of the workload, every window closed."""
    query = workload.query
    return connection.sql(_window_sql(query), params=[_files(data_dir / query.stream)])


def closed_by_watermark(workload: Workload, data_dir: Path) -> int:
    """The watermark after the whole input, in microseconds: the slack behind the largest event time, cut to the
    millisecond, which is how finely Spark keeps its watermark."""
    with session() as connection:
        found = connection.execute(
            "SELECT epoch_us(max(ts)) FROM read_parquet(?)", [_files(data_dir / workload.query.stream)]
        ).fetchone()
    assert found is not None, "an aggregate without groups gives one row"
    return int(found[0]) // 1000 * 1000 - SLACK_SECONDS * _SECOND


def equal(result: Path, workload: Workload, data_dir: Path, closed_upto: int | None = None) -> tuple[bool, str]:
    """Whether the Parquet files under `result` hold the batch answer, as a multiset; the second part says how not.

    With `closed_upto` (microseconds), only windows that end at or below it belong to the answer."""
    if not any(result.rglob("*.parquet")):
        return False, "no result files"
    with session() as connection:
        answer = batch_answer(connection, workload, data_dir)
        closed = answer if closed_upto is None else answer.filter(_ends_by(workload, closed_upto))
        _number_rows(workload, closed).create("expected")
        _number_rows(workload, connection.read_parquet(_files(result))).create("found")
        return _verdict(connection, workload)


def _files(folder: Path) -> str:
    return str(folder / "**" / "*.parquet")


def _ends_by(workload: Workload, time: int) -> str:
    return f"epoch_us(window_start) <= {time - workload.query.size * _SECOND}"


def _window_sql(query: WindowAggregate) -> str:
    """Each row falls into one pane, as wide as the slide; a window adds up its panes."""
    key = "k" if query.key_modulo is None else f"k % {query.key_modulo}"
    pane, panes = query.slide * _SECOND, query.size // query.slide
    return f"""
        WITH pane AS (
            SELECT {key} AS k, epoch_us(ts) // {pane} AS pane, count(*) AS n, sum(v) AS s
            FROM read_parquet(?) GROUP BY ALL
        ), placed AS (
            SELECT k, pane - step AS first_pane, n, s FROM pane, range({panes}) AS steps(step)
        )
        SELECT k, make_timestamp(first_pane * {pane}) AS window_start, sum(n)::BIGINT AS n, sum(s) AS s
        FROM placed GROUP BY k, first_pane"""


def _number_rows(workload: Workload, rows: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """The rows with a number among those of equal identity, so that doubled rows do not join twice. Times become
    numbers, for systems write them with and without a time zone."""
    identity, values = ", ".join(workload.identity), ", ".join(workload.exact + workload.close)
    times = ", ".join(f"epoch_us({name}) AS {name}" for name in workload.identity if name in TIMES)
    others = [name for name in workload.identity if name not in TIMES]
    copy = f"row_number() OVER (PARTITION BY {identity} ORDER BY {values}) AS copy"
    return rows.project(", ".join([*others, times, values, copy]))


def _verdict(connection: duckdb.DuckDBPyConnection, workload: Workload) -> tuple[bool, str]:
    same_row = " AND ".join(f"e.{name} IS NOT DISTINCT FROM f.{name}" for name in (*workload.identity, "copy"))
    missing, extra, wrong, right = connection.execute(
        f"""SELECT count(*) FILTER (f.copy IS NULL), count(*) FILTER (e.copy IS NULL),
                   count(*) FILTER (f.copy IS NOT NULL AND e.copy IS NOT NULL AND NOT ({_same_values(workload)})),
                   count(*) FILTER (f.copy IS NOT NULL AND e.copy IS NOT NULL AND ({_same_values(workload)}))
            FROM expected e FULL JOIN found f ON {same_row}"""
    ).fetchall()[0]
    detail = f"{right} rows right, {missing} missing, {extra} extra, {wrong} wrong"
    return missing == extra == wrong == 0 and right > 0, detail


def _same_values(workload: Workload) -> str:
    exact = [f"e.{name} IS NOT DISTINCT FROM f.{name}" for name in workload.exact]
    return " AND ".join(exact + [_near(f"e.{name}", f"f.{name}") for name in workload.close])


def _near(one: str, other: str) -> str:
    """Only finite numbers are compared by distance: to DuckDB, NaN is the largest number and equals itself."""
    finite = f"isfinite({one}) AND isfinite({other})"
    distance = f"abs({one} - {other}) <= {TOLERANCE} * greatest(abs({one}), abs({other}))"
    return f"({one} IS NOT DISTINCT FROM {other} OR coalesce({finite} AND {distance}, FALSE))"
