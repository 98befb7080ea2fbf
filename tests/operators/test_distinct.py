"""Distinct rows against DuckDB in batch, and at the edges."""

from __future__ import annotations

import math
from random import Random

import pyarrow as pa
import pytest
from row_operator_run import OperatorRun, as_bag, batch, random_rows, random_types

from penstock.errors import QueryError
from penstock.operators.distinct import DistinctRows
from penstock.operators.protocol import Portion, Stored
from penstock.progress.mark import BEGIN, END, MAX_TIME, MIN_TIME, at

PLAIN = pa.schema([pa.field("ts", pa.int64()), pa.field("v", pa.float64())])


@pytest.mark.parametrize("bits", [64, 8, 0])
def test_as_duckdb_whatever_the_schedule(random: Random, bits: int) -> None:
    for _ in range(40):
        rows = random_rows(random, random_types(random), random.choice([0, 1, 5, 60]))
        operator = DistinctRows("ts", rows.schema, bits)
        found = OperatorRun(operator, "ts", random).run(rows)
        assert as_bag(found) == batch(rows, "SELECT DISTINCT * FROM rows")


def table(*rows: tuple[int, float | None]) -> pa.Table:
    return pa.table([list(column) for column in zip(*rows, strict=True)], schema=PLAIN)


def portion(operator: DistinctRows, stored: list[pa.Table], fresh: pa.Table, **marks: object) -> Portion:
    pieces = [Stored(rows, MIN_TIME, MAX_TIME) for rows in stored]
    return Portion((pieces,), (fresh,), (marks.get("after", BEGIN),), (marks.get("upto", BEGIN),))  # type: ignore


def test_a_zero_comes_out_without_a_sign_and_one_nan() -> None:
    operator = DistinctRows("ts", PLAIN)
    state = operator.prepare(0, table((1, -0.0), (1, 0.0), (1, math.nan), (1, -math.nan), (1, None), (1, None)))
    (found,) = operator.work(portion(operator, [], state)).results
    values = found.column("v").to_pylist()
    assert sorted(map(str, values)) == ["0.0", "None", "nan"]


def test_a_row_comes_out_at_once_and_never_again() -> None:
    operator = DistinctRows("ts", PLAIN, hash_bits=0)
    first = operator.work(portion(operator, [], operator.prepare(0, table((5, 1.0), (6, 1.0)))))
    assert as_bag(list(first.results)) == {(5, 1.0): 1, (6, 1.0): 1}
    fresh = operator.prepare(0, table((6, 1.0), (6, 2.0)))
    second = operator.work(portion(operator, [*first.keep], fresh, upto=at(6)))
    assert as_bag(list(second.results)) == {(6, 2.0): 1}
    assert second.keep[0].num_rows == 1


@pytest.mark.parametrize(("mark", "kept"), [(at(5), 1), (at(6), 0), (END, 0), (at(MAX_TIME), 0), (BEGIN, 1)])
def test_a_row_is_remembered_until_the_mark_passes_its_time(mark: object, kept: int) -> None:
    operator = DistinctRows("ts", PLAIN)
    done = operator.work(portion(operator, [], operator.prepare(0, table((5, 1.0))), upto=mark))
    assert sum(t.num_rows for t in done.results) == 1
    assert done.keep[0].num_rows == kept
    assert (operator.expired_below(0, (mark,)) <= 5) == bool(kept)  # type: ignore[arg-type]


def test_fresh_rows_that_were_not_combined_come_out_once() -> None:
    operator = DistinctRows("ts", PLAIN)
    state = operator.prepare(0, table((5, 1.0)))
    done = operator.work(portion(operator, [], pa.concat_tables([state, state])))
    assert as_bag(list(done.results)) == {(5, 1.0): 1}
    assert done.keep[0].num_rows == 1


def test_duplicates_go_before_they_travel() -> None:
    operator = DistinctRows("ts", PLAIN)
    prepared = operator.prepare(0, table(*[(3, 1.0)] * 10, (3, None)))
    assert prepared.num_rows == 2
    assert operator.combine(0, [prepared, prepared]).equals(prepared)


def test_columns_may_be_called_like_those_of_the_state() -> None:
    rows = pa.table({"#time": [1, 1], "#hash": ["a", "a"], "column.0": [None, None]}).cast(
        pa.schema([("#time", pa.int64()), ("#hash", pa.string()), ("column.0", pa.int8())])
    )
    operator = DistinctRows("#time", rows.schema)
    (found,) = operator.work(portion(operator, [], operator.prepare(0, rows))).results
    assert found.equals(rows.slice(0, 1))


def test_a_type_that_cannot_be_compared_is_refused() -> None:
    with pytest.raises(QueryError, match="`v` cannot be a key"):
        DistinctRows("ts", pa.schema([("ts", pa.int64()), ("v", pa.list_(pa.int8()))]))
