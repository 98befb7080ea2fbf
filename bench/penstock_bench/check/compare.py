"""Whether two sets of result rows are the same multiset, by DuckDB, part by part so that memory stays bounded.

Rows are told apart by the workload's identity columns; the hash of these says which part a row is in, and decides
nothing else. Times become microseconds, for systems write them with and without a time zone and in different units.
Without value columns, equal rows are counted on both sides. With value columns, the rows of equal identity are paired
in the order of their values.

All SQL here is made of the workloads' own names and numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import duckdb

from penstock_bench.workload import Workload

TOLERANCE = 1e-9
ROWS_PER_PART = 1_000_000


@dataclass(frozen=True)
class Compared:
    """What was found. `detail` says it in words."""

    equal: bool = False
    detail: str = ""


@dataclass(frozen=True)
class _Counts:
    """Rows that are right, missing, too many, and paired but wrong in a value."""

    right: int = 0
    missing: int = 0
    extra: int = 0
    wrong: int = 0

    def plus(self, other: _Counts) -> _Counts:
        return _Counts(
            self.right + other.right,
            self.missing + other.missing,
            self.extra + other.extra,
            self.wrong + other.wrong,
        )

    @property
    def verdict(self) -> Compared:
        """No row at all is no answer: a benchmark whose answer is empty shows nothing."""
        detail = f"{self.right} rows right, {self.missing} missing, {self.extra} extra, {self.wrong} wrong"
        return Compared(self.missing == self.extra == self.wrong == 0 and self.right > 0, detail)


def compare(
    connection: duckdb.DuckDBPyConnection,
    expected: duckdb.DuckDBPyRelation,
    found: duckdb.DuckDBPyRelation,
    workload: Workload,
    rows_per_part: int = ROWS_PER_PART,
) -> Compared:
    """Compares the columns that the workload names. Leaves the tables `expected` and `found` in the connection."""
    absent = [name for name in _columns(workload) if name not in found.columns]
    if absent:
        return Compared(detail=f"the result has no column {', '.join(absent)}")
    plain(expected, workload).create("expected")
    plain(found, workload).create("found")
    parts = max(1, _rows(connection) // rows_per_part)
    counted = _paired if workload.exact or workload.close else _balanced
    total = _Counts()
    for part in range(parts):
        total = total.plus(counted(connection, workload, f"hash({_names(workload.identity)}) % {parts} = {part}"))
    return total.verdict


def _columns(workload: Workload) -> tuple[str, ...]:
    return (*workload.identity, *workload.exact, *workload.close)


def _names(columns: Iterable[str], prefix: str = "") -> str:
    return ", ".join(prefix + name for name in columns)


def plain(rows: duckdb.DuckDBPyRelation, workload: Workload) -> duckdb.DuckDBPyRelation:
    """The named columns, with times as microseconds."""
    types = dict(zip(rows.columns, map(str, rows.types), strict=True))
    return rows.project(", ".join(_plain_column(name, types[name]) for name in _columns(workload)))


def _plain_column(name: str, kind: str) -> str:
    """Equal numbers must also be in the same part, whatever the width of the integers that a system writes."""
    if kind.startswith("TIMESTAMP"):
        return f"epoch_us({name}) AS {name}"
    return f"{name}::BIGINT AS {name}" if kind.endswith(("TINYINT", "SMALLINT", "INTEGER")) else name


def _rows(connection: duckdb.DuckDBPyConnection) -> int:
    return int(_row(connection, "SELECT (SELECT count(*) FROM expected) + (SELECT count(*) FROM found)")[0])


def _balanced(connection: duckdb.DuckDBPyConnection, workload: Workload, where: str) -> _Counts:
    """Every row counts as one on its side; what does not cancel out is missing or too many."""
    columns = _names(workload.identity)
    right, missing, extra = _row(
        connection,
        f"""
        WITH side AS (
            SELECT {columns}, 1 AS e, 0 AS f FROM expected WHERE {where}
            UNION ALL SELECT {columns}, 0, 1 FROM found WHERE {where}
        ), counted AS (SELECT sum(e) AS e, sum(f) AS f FROM side GROUP BY {columns})
        SELECT sum(least(e, f)), sum(greatest(e - f, 0)), sum(greatest(f - e, 0)) FROM counted""",
    )
    return _Counts(int(right or 0), int(missing or 0), int(extra or 0))


def _paired(connection: duckdb.DuckDBPyConnection, workload: Workload, where: str) -> _Counts:
    same_row = " AND ".join(f"e.{name} IS NOT DISTINCT FROM f.{name}" for name in (*workload.identity, "copy"))
    right, missing, extra, wrong = _row(
        connection,
        f"""
        WITH e AS ({_numbered("expected", workload, where)}), f AS ({_numbered("found", workload, where)}),
        pair AS (
            SELECT e.copy IS NULL AS extra, f.copy IS NULL AS missing, {_same_values(workload)} AS same
            FROM e FULL JOIN f ON {same_row}
        )
        SELECT count(*) FILTER (NOT extra AND NOT missing AND same), count(*) FILTER (missing),
               count(*) FILTER (extra), count(*) FILTER (NOT extra AND NOT missing AND NOT same) FROM pair""",
    )
    return _Counts(int(right), int(missing), int(extra), int(wrong))


def _numbered(table: str, workload: Workload, where: str) -> str:
    """The rows with a number among those of equal identity, so that doubled rows do not join twice."""
    values = _names((*workload.exact, *workload.close))
    copy = f"row_number() OVER (PARTITION BY {_names(workload.identity)} ORDER BY {values}) AS copy"
    return f"SELECT *, {copy} FROM {table} WHERE {where}"


def _same_values(workload: Workload) -> str:
    exact = [f"e.{name} IS NOT DISTINCT FROM f.{name}" for name in workload.exact]
    return " AND ".join(exact + [_near(f"e.{name}", f"f.{name}") for name in workload.close])


def _near(one: str, other: str) -> str:
    """Only finite numbers are compared by distance: to DuckDB, NaN is the largest number and equals itself."""
    finite = f"isfinite({one}) AND isfinite({other})"
    distance = f"abs({one} - {other}) <= {TOLERANCE} * greatest(abs({one}), abs({other}))"
    return f"({one} IS NOT DISTINCT FROM {other} OR coalesce({finite} AND {distance}, FALSE))"


def _row(connection: duckdb.DuckDBPyConnection, query: str) -> tuple[float, ...]:
    found = connection.execute(query).fetchone()
    assert found is not None, "an aggregate without groups gives one row"
    return tuple(found)
