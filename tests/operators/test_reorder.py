"""Rows in order of time, whatever the order they came in."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest
from row_operator_run import DUCKDB, OperatorRun, as_tuples, random_rows, random_types

from penstock.operators import reorder
from penstock.operators.protocol import Portion, Stored
from penstock.operators.reorder import Reorder
from penstock.progress.mark import BEGIN, END, MAX_TIME, MIN_TIME, Mark, at
from penstock.types import time_values

SCHEMA = pa.schema([("ts", pa.int64()), ("v", pa.float64())])


def test_in_order_of_time_then_of_values(random: Random, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reorder, "_PIECE", 7)
    for _ in range(60):
        rows = random_rows(random, random_types(random), random.choice([0, 1, 5, 60]))
        found = OperatorRun(Reorder("ts", rows.schema), "ts", random).run(rows)
        DUCKDB.register("rows", rows)
        order = ", ".join(f"{name} NULLS LAST" for name in rows.schema.names)
        expected = DUCKDB.sql(f"SELECT * FROM rows ORDER BY {order}").to_arrow_table()
        assert [row for table in found for row in as_tuples(table)] == as_tuples(expected)
        assert all(table.num_rows <= 7 for table in found)


def let_through(state: pa.Table, after: Mark, upto: Mark) -> pa.Table:
    portion = Portion(([Stored(state, MIN_TIME, MAX_TIME)],), (state.slice(0, 0),), (after,), (upto,))
    done = Reorder("ts", SCHEMA).work(portion)
    assert done.keep[0].num_rows == 0
    return pa.concat_tables([SCHEMA.empty_table(), *done.results])


def test_rows_wait_until_the_mark_has_passed_them() -> None:
    rows = pa.table({"ts": [6, 5, MAX_TIME], "v": [1.0, 2.0, 3.0]}, schema=SCHEMA)
    state = Reorder("ts", SCHEMA).prepare(0, rows)
    assert let_through(state, BEGIN, at(5)).num_rows == 0
    assert time_values(let_through(state, BEGIN, at(6)).column("ts")).tolist() == [5]
    assert time_values(let_through(state, at(6), END).column("ts")).tolist() == [6, MAX_TIME]
    assert let_through(state, at(7), at(MAX_TIME)).num_rows == 0


def test_one_hash_for_all_and_values_untouched() -> None:
    rows = pa.table({"ts": [2, 1], "v": [-0.0, None]}, schema=SCHEMA)
    state = Reorder("ts", SCHEMA).prepare(0, rows)
    assert state.column("#hash").to_pylist() == [0, 0]
    assert str(let_through(state, BEGIN, END).column("v").to_pylist()) == "[None, -0.0]"


def test_columns_without_an_order_are_let_through() -> None:
    rows = pa.table({"ts": [1, 2, 0, 2], "v": [[2], None, [1, 1], None]})
    operator = Reorder("ts", rows.schema)
    portion = Portion(([Stored(operator.prepare(0, rows), 0, 2)],), (), (BEGIN,), (END,))
    (found,) = operator.work(portion).results
    assert found.column("v").to_pylist() == [[1, 1], [2], None, None]
