"""A query that DuckDB can read means the same here: its plan, computed at once, gives what DuckDB makes of the text."""

from __future__ import annotations

from random import Random

import duckdb
import pyarrow as pa
import pytest
from sql_case import FakeConnectors

from penstock.sql import parse_script
from penstock.testing.oracle import batch_answer
from penstock.testing.rows import assert_same_rows

STREAMS = """
CREATE SOURCE a (k INT, v DOUBLE, n BIGINT, WATERMARK FOR n AS n) WITH (connector = 'files');
CREATE SOURCE b (k BIGINT, w INT, n BIGINT, WATERMARK FOR n AS n) WITH (connector = 'files');
CREATE SOURCE c (k DOUBLE, v INT, n BIGINT, WATERMARK FOR n AS n) WITH (connector = 'files');
"""
TYPES = {
    "a": {"k": pa.int32(), "v": pa.float64(), "n": pa.int64()},
    "b": {"k": pa.int64(), "w": pa.int32(), "n": pa.int64()},
    "c": {"k": pa.float64(), "v": pa.int32(), "n": pa.int64()},
}
JOINS = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN"]
BANDS = [
    "b.n BETWEEN a.n - 3 AND a.n + 2", "a.n < b.n AND b.n - a.n <= 6", "b.n = a.n", "a.n // 4 = b.n // 4",
    "b.n > a.n - 4 AND NOT (b.n = a.n) AND b.n < a.n + 4", "a.n BETWEEN b.n - 1 AND 12 AND b.n + 3 > a.n",
]  # fmt: skip
KEYS = ["a.k = b.k", "a.k + 1 = b.k", "a.k = b.k AND a.v = b.w", "b.k = a.k AND a.v + 1 = b.k"]
CONDITIONS = [
    "a.v > 1",
    "b.w > 1",
    "a.v < b.w",
    "(a.v > 2 OR b.w IS NULL)",
    "TRUE",
    "1 = 1",
    "b.w IS NOT NULL",
    "a.k <> 2",
]
ABOVE = ["a.v > 1", "b.w > 1", "b.w IS NULL", "a.v IS DISTINCT FROM b.w", "coalesce(a.k, b.k) > 1", "a.k IS NOT NULL"]


def table(random: Random, name: str, rows: int = 25) -> pa.Table:
    """Few values, so that much is equal; nulls, and times below zero."""
    times = {"n": lambda: random.randint(-6, 15)}
    columns = {
        column: [times.get(column, lambda: random.choice([None, 1, 2, 3, 4]))() for _ in range(rows)]
        for column in TYPES[name]
    }
    return pa.table(columns, schema=pa.schema(TYPES[name]))


def some(random: Random, choices: list[str], most: int) -> list[str]:
    return random.sample(choices, random.randint(0, most))


def two_streams(random: Random) -> str:
    join = random.choice(JOINS)
    on = [random.choice(KEYS), random.choice(BANDS), *some(random, CONDITIONS, 2)]
    random.shuffle(on)
    is_half = join in ("SEMI JOIN", "ANTI JOIN")
    above = some(random, [c for c in ABOVE if not (is_half and "b." in c)], 2)
    select = "*" if is_half or random.random() < 0.5 else "b.n, a.k, a.v, b.w, b.k, a.n"
    return f"SELECT {select} FROM a {join} b ON {' AND '.join(on)} WHERE {' AND '.join(['TRUE', *above])}"


def using(random: Random) -> str:
    join = random.choice(JOINS[:4])
    columns = random.choice(["k, n", "n"])
    return f"SELECT {random.choice(['*', 'n, v, w', 'a.n, b.n, n'])} FROM a {join} b USING ({columns})"


def comma(random: Random) -> str:
    where = [random.choice(KEYS), random.choice(BANDS), *some(random, CONDITIONS, 3)]
    return f"SELECT * FROM a, b WHERE {' AND '.join(where)}"


def three_streams(random: Random) -> str:
    first = random.choice(["a.k = b.k", "a.v = b.w"])
    second = random.choice(["c.k = a.k", "b.k = c.k", "c.v = b.w", "c.k = a.k AND b.k = c.k"])
    bands = "b.n BETWEEN a.n - 3 AND a.n + 2 AND c.n BETWEEN a.n - 2 AND a.n + 4"
    rest = " AND ".join(["TRUE", *some(random, ["a.v + b.w > c.v", "c.v > 1", "a.k + b.k = 2 * c.k", "b.w > 1"], 2)])
    return random.choice(
        [
            f"SELECT * FROM a JOIN b ON {first} JOIN c ON {second} WHERE {bands} AND {rest}",
            f"SELECT * FROM c, a, b WHERE {first} AND {second} AND {bands} AND {rest}",
            f"SELECT * FROM (a JOIN b ON {first} AND b.n BETWEEN a.n - 3 AND a.n + 2) LEFT JOIN c "
            f"ON {second} AND c.n BETWEEN a.n - 2 AND a.n + 4 AND {rest} WHERE a.v > 1",
            f"SELECT x.k, x.n, c.v FROM (SELECT a.k, b.w, a.n FROM a JOIN b ON {first} AND a.n = b.n) x "
            "JOIN c ON x.k = c.k AND x.n - c.n BETWEEN -1 AND 5",
        ]
    )


def chains(random: Random) -> str:
    """Outer joins before and behind others, USING more than once, commas among joins, joins in parentheses."""
    first, second, left = random.choice(JOINS[:3]), random.choice(JOINS), random.choice(JOINS[:2])
    on = "a.k = b.k AND a.n = b.n"
    side = "b" if first == "RIGHT JOIN" else "a"
    near = f"c.n BETWEEN {side}.n - 2 AND {side}.n + 4"
    above = " AND ".join(
        ["TRUE", *some(random, ["a.v > 1", "(b.w IS NULL OR b.w > 1)", "a.k IS DISTINCT FROM b.k"], 2)]
    )
    return random.choice(
        [
            f"SELECT * FROM a {first} b ON {on} {second} c ON c.k = {side}.k AND {near} WHERE {above}",
            f"SELECT n, a.v, w, c.v FROM a {left} b USING (n) {random.choice(JOINS[:2])} c USING (n)",
            f"SELECT * FROM c, a {first} b ON {on} WHERE {near} AND c.v = {side}.k AND {above}",
            f"SELECT * FROM c {left} (a JOIN b ON {on}) ON c.v = b.w AND c.n = a.n",
            f"SELECT * FROM c, a {left} b ON c.v = b.w AND c.n = b.n AND a.n = b.n WHERE c.k = a.k AND c.n = a.n",
            f"SELECT x.n, y.k FROM (SELECT k, n FROM a WHERE v > 1) x {first} (SELECT * FROM b) AS y USING (k, n)",
            "SELECT A.n, B.k, A.v + B.v FROM a AS A, a AS B WHERE A.k = B.k AND A.n - B.n BETWEEN -2 AND 2",
        ]
    )


def unions(random: Random) -> str:
    kind = random.choice(["UNION", "UNION ALL"])
    return random.choice(
        [
            f"SELECT k, n FROM a {kind} SELECT k, n FROM b {kind} SELECT v, n FROM c",
            f"SELECT k + 1 AS x, n FROM a WHERE v > 1 {kind} SELECT w, n FROM b",
            f"WITH x AS (SELECT k, n FROM a), y AS (SELECT * FROM x {kind} SELECT k, n FROM b) SELECT n, k FROM y",
            "SELECT DISTINCT k, n FROM (SELECT k, n FROM a UNION ALL SELECT k, n FROM b)",
            "SELECT DISTINCT n, a.k % 2 FROM a JOIN c USING (n)",
        ]
    )


def groups(random: Random) -> str:
    having = random.choice(["", " HAVING count(*) > 1", " HAVING sum(w) > 2 AND max(a.v) > 1"])
    keys = random.choice(["a.n, b.n", "a.n, b.n, a.k", "b.n, a.k + b.w"])
    joined = "a JOIN b ON a.k = b.k AND b.n BETWEEN a.n - 3 AND a.n + 2"
    return random.choice(
        [
            f"SELECT {keys}, count(*), sum(w), max(a.v) FROM {joined} GROUP BY {keys}{having}",
            "SELECT n, m, count(*) FROM (SELECT n, k, count(*) AS m FROM a GROUP BY n, k) GROUP BY n, m",
            "SELECT n FROM a GROUP BY n",
        ]
    )


def firsts(random: Random) -> str:
    order = random.choice(["v", "v DESC", "v NULLS FIRST", "v DESC NULLS FIRST", "-v"])
    partition = random.choice(["PARTITION BY n", "PARTITION BY k", "PARTITION BY n, k % 2", ""])
    number = f"ROW_NUMBER() OVER ({partition} ORDER BY {order}, k, n)"
    bound = random.choice(
        ["rn <= 2", "rn = 1", "rn < 3 AND rn > 1", "2 >= rn", "rn BETWEEN 2 AND 3", "rn = 2 AND k > 1"]
    )
    return random.choice(
        [
            f"SELECT v, k, n, rn FROM (SELECT *, {number} AS rn FROM a) WHERE {bound}",
            f"WITH r AS (SELECT k, v, n, {number} AS rn FROM a) SELECT * FROM r WHERE {bound}",
            f"SELECT k, v, n, {number} AS rn FROM a WHERE v IS NOT NULL QUALIFY {bound}",
        ]
    )


@pytest.mark.parametrize(
    ("queries", "count"),
    [
        (two_streams, 60),
        (using, 12),
        (comma, 15),
        (three_streams, 30),
        (chains, 30),
        (unions, 12),
        (groups, 15),
        (firsts, 25),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_plan_gives_what_duckdb_gives(queries: object, count: int, random: Random) -> None:
    answered = 0
    for _ in range(count):
        query = queries(random)  # type: ignore[operator]
        tables = {name: table(random, name) for name in TYPES}
        node = parse_script(STREAMS + query, connectors=FakeConnectors()).queries[-1][1]
        got = batch_answer(node, tables)
        want = duckdb_answer(query, tables)
        assert_same_rows(numbered(got), numbered(want), query)
        answered += got.num_rows > 0
    assert answered > count // 3, "most queries have an empty answer"


def duckdb_answer(query: str, tables: dict[str, pa.Table]) -> pa.Table:
    with duckdb.connect(config={"threads": 1}) as connection:
        for name, rows in tables.items():
            connection.register(name, rows)
        return connection.sql(query).to_arrow_table()


def numbered(rows: pa.Table) -> pa.Table:
    """Columns by position, as text: two columns of DuckDB's may have one name, and its types may be wider."""
    names = [str(i) for i in range(rows.num_columns)]
    return pa.table([column.cast(pa.float64()).cast(pa.string()) for column in rows.columns], names=names)
