"""Top-n against DuckDB in batch, and at the edges."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest
from row_operator_run import OperatorRun, as_bag, as_tuples, batch, random_rows, random_types

from penstock.errors import QueryError
from penstock.operators.protocol import Portion, Stored
from penstock.operators.top import OrderColumn, TopRows
from penstock.progress.mark import BEGIN, END, MAX_TIME, MIN_TIME, Mark, at


def random_top(random: Random, schema: pa.Schema, bits: int) -> TopRows:
    names = [name for name in schema.names if name != "ts"]
    some = random.sample(names, k=random.randint(0, len(names)))
    order = random.sample(schema.names, k=random.randint(0, min(2, len(schema.names))))
    columns = random.sample(schema.names, k=random.randint(1, len(schema.names)))
    time = random.choice(["ts", None])
    if time and time not in columns:
        columns.append(time)
    return TopRows(
        keys=tuple(some[:2]),
        time=time,
        order=tuple(OrderColumn(name, random.random() < 0.5, random.random() < 0.5) for name in order),
        n=random.choice([1, 2, 7, 1000]),
        number=random.choice([None, "place"]),
        columns=tuple(columns),
        input_schema=schema,
        hash_bits=bits,
    )


def in_sql(top: TopRows) -> str:
    groups = [*top.keys, *([top.time] if top.time else [])]
    partition = f"PARTITION BY {', '.join(groups)}" if groups else ""
    directions = [
        (o.column, "DESC" if o.descending else "ASC", "FIRST" if o.nulls_first else "LAST") for o in top.order
    ]
    order = [f"{column} {way} NULLS {nulls}" for column, way, nulls in directions]
    order += [f"{column} ASC NULLS LAST" for column in top.columns]
    place = f"row_number() OVER ({partition} ORDER BY {', '.join(order)})"
    shown = ", ".join([*top.columns, *([f"{place} AS place"] if top.number else [])])
    return f"SELECT {shown} FROM rows QUALIFY {place} <= {top.n}"


@pytest.mark.parametrize("bits", [64, 8, 0])
def test_as_duckdb_whatever_the_schedule(random: Random, bits: int) -> None:
    for _ in range(60):
        rows = random_rows(random, random_types(random), random.choice([0, 1, 5, 60]))
        operator = random_top(random, rows.schema, bits)
        found = OperatorRun(operator, "ts", random).run(rows)
        assert as_bag(found) == batch(rows, in_sql(operator)), operator


SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string()), ("v", pa.int64())])


def top(n: int = 2, time: str | None = "ts", *, descending: bool = True) -> TopRows:
    order = (OrderColumn("v", descending, nulls_first=False),)
    return TopRows(("k",), time, order, n, "place", ("ts", "k", "v"), SCHEMA)


def rows(*values: tuple[int, str | None, int | None]) -> pa.Table:
    return pa.table([list(column) for column in zip(*values, strict=True)], schema=SCHEMA)


def closed(operator: TopRows, state: pa.Table, after: Mark, upto: Mark) -> list[tuple[object, ...]]:
    done = operator.work(Portion(([Stored(state, MIN_TIME, MAX_TIME)],), (state.slice(0, 0),), (after,), (upto,)))
    assert done.keep[0].num_rows == 0
    return [row for table in done.results for row in as_tuples(table)]


def test_only_the_first_rows_travel() -> None:
    prepared = top().prepare(0, rows(*[(1, "a", v) for v in range(50)], (1, "b", 1), (2, "a", 1)))
    assert prepared.num_rows == 4
    assert top().combine(0, [prepared, prepared]).num_rows == 6


def test_equal_rows_have_places_of_their_own() -> None:
    state = top(3).prepare(0, rows(*[(1, "a", 7)] * 5))
    assert closed(top(3), state, BEGIN, END) == [(1, "a", 7, 1), (1, "a", 7, 2), (1, "a", 7, 3)]


def test_null_keys_form_a_group() -> None:
    state = top(1).prepare(0, rows((1, None, 1), (1, None, 2), (1, "", 0)))
    assert sorted(closed(top(1), state, BEGIN, END), key=str) == [(1, "", 0, 1), (1, None, 2, 1)]


@pytest.mark.parametrize(
    ("after", "upto", "found"),
    [
        (BEGIN, at(5), []),
        (BEGIN, at(6), [5]),
        (at(5), at(6), [5]),
        (at(6), at(7), []),
        (at(6), END, [MAX_TIME]),
        (at(6), at(MAX_TIME), []),
        (at(MAX_TIME), END, [MAX_TIME]),
        (END, END, []),
    ],
)
def test_a_time_is_complete_once_the_mark_has_passed_it(after: Mark, upto: Mark, found: list[int]) -> None:
    state = top().prepare(0, rows((5, "a", 1), (MAX_TIME, "a", 1)))
    assert [row[0] for row in closed(top(), state, after, upto)] == found
    assert top().due((after,), (upto,), (5,)) or not found


def test_nothing_is_due_before_the_first_row_is_complete() -> None:
    assert not top().due((BEGIN,), (at(5),), (5,))
    assert top().due((BEGIN,), (at(6),), (5,))
    assert not top().due((BEGIN,), (END,), (None,))
    assert not top().due((END,), (END,), (5,))


def test_without_a_time_all_waits_for_the_end() -> None:
    operator = top(time=None)
    state = operator.prepare(0, rows((9, "a", 1), (-9, "a", 3), (0, "a", 2)))
    assert state.column("#time").to_pylist() == [0, 0]
    assert closed(operator, state, BEGIN, at(MAX_TIME)) == []
    assert closed(operator, state, at(MAX_TIME), END) == [(-9, "a", 3, 1), (0, "a", 2, 2)]
    assert operator.output_times == ("",)
    assert operator.output_marks((at(5),)) == (BEGIN,)
    assert operator.output_marks((END,)) == (END,)
    assert operator.expired_below(0, (at(5),)) == MIN_TIME
    assert not operator.due((BEGIN,), (at(5),), (0,))
    assert operator.due((at(5),), (END,), (0,))


def test_places_need_a_name_of_their_own() -> None:
    with pytest.raises(QueryError, match="two columns of the result are called `v`"):
        TopRows((), "ts", (), 1, "v", ("ts", "v"), SCHEMA)


def test_a_limit_of_nothing_is_refused() -> None:
    with pytest.raises(QueryError, match="above zero"):
        top(0)


def test_a_type_without_an_order_is_refused() -> None:
    schema = pa.schema([("ts", pa.int64()), ("v", pa.time64("us"))])
    with pytest.raises(QueryError, match="`v` cannot be limited"):
        TopRows((), "ts", (), 1, None, ("ts", "v"), schema)
    TopRows((), "ts", (), 1, None, ("ts",), schema)  # what is not in the result does not matter
