"""Sort words against DuckDB's ORDER BY."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest
from row_operator_run import DUCKDB, VALUES, as_tuples

from penstock.operators.sort_words import order_by_words, sort_words


@pytest.mark.parametrize("type_", list(VALUES), ids=str)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("nulls_first", [False, True])
def test_words_sort_as_duckdb_does(random: Random, type_: pa.DataType, descending: bool, nulls_first: bool) -> None:
    column = pa.array(random.choices([*VALUES[type_], None], k=50), type_)
    order = order_by_words(sort_words(column, descending=descending, nulls_first=nulls_first))
    DUCKDB.register("unsorted", pa.table({"v": column}))
    way = f"{'DESC' if descending else 'ASC'} NULLS {'FIRST' if nulls_first else 'LAST'}"
    expected = DUCKDB.sql(f"SELECT v FROM unsorted ORDER BY v {way}").to_arrow_table()
    assert as_tuples(pa.table({"v": column.take(pa.array(order))})) == as_tuples(expected)


@pytest.mark.parametrize("type_", list(VALUES), ids=str)
def test_words_are_equal_where_values_are(type_: pa.DataType) -> None:
    column = pa.array([*VALUES[type_], None, *VALUES[type_], None], type_)
    words = np.stack(sort_words(column), axis=1)
    half = len(column) // 2
    assert np.array_equal(words[:half], words[half:])


@pytest.mark.parametrize("type_", list(VALUES), ids=str)
def test_a_column_of_nulls_and_an_empty_one(type_: pa.DataType) -> None:
    for column in (pa.nulls(3, type_), pa.array([], type_)):
        assert sorted(order_by_words(sort_words(column)).tolist()) == list(range(len(column)))


@pytest.mark.parametrize("width", [1, 20, 64])
def test_an_order_by_several_words(random: Random, width: int) -> None:
    for _ in range(30):
        pools = [[random.getrandbits(width) for _ in range(5)] for _ in range(random.randint(1, 5))]
        words = [np.array(random.choices(pool, k=40), dtype=np.uint64) for pool in pools]
        rows = list(zip(*(word.tolist() for word in words), strict=True))
        assert [rows[i] for i in order_by_words(words)] == sorted(rows)
