"""The oracle by itself, on tables that can be checked by hand."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

from penstock.connectors.memory import MemoryConnector
from penstock.expr.tree import Call, Column, Expr, Literal, Named
from penstock.operators.bands import Band
from penstock.operators.window.kinds import EqualTimes, RowWindow, Session
from penstock.operators.window.windows import Window
from penstock.plan.logical import (
    Aggregate,
    Aggregation,
    AssignWindows,
    BatchFunction,
    Distinct,
    Filter,
    InOrder,
    Join,
    MapBatches,
    Node,
    Order,
    Project,
    Source,
    SplitRows,
    TopN,
    Union,
)
from penstock.progress.mark import Ordered
from penstock.testing.oracle import batch_answer

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("f", pa.float64())])
TS, K, F = Column("ts"), Column("k"), Column("f")
NAN = math.nan
COUNT = (Aggregation("n", "count", None),)
NAMES = (("ts", "k", "f"), ("ts2", "k2", "f2"))
Row = tuple[Any, ...]

LEFT: list[Row] = [(1, 1, 0.0), (2, 1, -0.0), (3, 2, NAN), (3, 2, NAN), (5, None, 1.0), (-7, 1, 2.0)]
RIGHT: list[Row] = [(1, 1, 9.0), (2, 1, 9.0), (2, 9, 9.0), (5, None, 9.0)]


def source(name: str) -> Source:
    return Source(name, SCHEMA, "ts", Ordered(), MemoryConnector((SCHEMA.empty_table(),)))


def table(rows: list[Row]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * 3
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def answer(node: Node, a: list[Row] = LEFT, b: list[Row] = RIGHT) -> list[Row]:
    """Rows in an order of their own, with NaN as text, since it does not equal itself."""
    rows = batch_answer(node, {"a": table(a), "b": table(b)}).to_pylist()
    plain = [tuple("nan" if v != v else v for v in row.values()) for row in rows]
    return sorted(plain, key=lambda row: [(v is None, str(type(v)), v) for v in row])


A, B = source("a"), source("b")


def join(kind: str = "inner", key: Expr = K, condition: Expr | None = None) -> Join:
    return Join((A, B), kind, ((key,), (key,)), ("ts", "ts"), (Band(0, 1, 1, 0),), condition, NAMES)


def test_a_split_sends_a_row_to_the_first_predicate_that_holds() -> None:
    predicates = (Call("=", (K, Literal(1))), Call(">", (TS, Literal(4))))
    assert [answer(SplitRows(A, predicates, n)) for n in range(3)] == [
        [(-7, 1, 2.0), (1, 1, 0.0), (2, 1, -0.0)],
        [(5, None, 1.0)],
        [(3, 2, "nan"), (3, 2, "nan")],
    ]


def test_a_projection_may_swap_names() -> None:
    assert answer(Project(A, (Named("k", TS), Named("ts", K))), [(1, 2, 3.0)]) == [(1, 2)]


def test_a_union_goes_by_position() -> None:
    swapped = Project(B, (Named("x", TS), Named("ts", K), Named("f", F)))
    assert answer(Union((A, swapped, A)), [(1, 2, 3.0)], [(7, 8, 9.0)]) == [(1, 2, 3.0), (1, 2, 3.0), (7, 8, 9.0)]


def test_distinct_rows_have_one_zero_and_one_nan() -> None:
    rows: list[Row] = [(1, 1, 0.0), (1, 1, -0.0), (1, None, NAN), (1, None, NAN), (1, None, None)]
    assert answer(Distinct(A, "ts"), rows) == [(1, 1, 0.0), (1, None, "nan"), (1, None, None)]


def test_windows_hold_a_row_more_than_once() -> None:
    assert answer(AssignWindows(A, Window("ts", 4, 2)), [(-1, 1, 1.0), (2, 1, 1.0)]) == [
        (-1, 1, 1.0, -4, 0),
        (-1, 1, 1.0, -2, 2),
        (2, 1, 1.0, 0, 4),
        (2, 1, 1.0, 2, 6),
    ]


def test_sessions_end_a_gap_after_their_last_row() -> None:
    node = Aggregate(A, (Named("k", K),), Session("ts", 2), (*COUNT, Aggregation("last", "last", F)))
    rows: list[Row] = [(1, 1, 5.0), (2, 1, 6.0), (4, 1, 7.0), (4, 1, 8.0), (3, None, 9.0), (4, None, None)]
    assert answer(node, rows) == [(1, 1, 4, 2, 6.0), (1, 4, 6, 2, 8.0), (None, 3, 6, 2, 9.0)]


def test_rows_are_numbered_before_filters() -> None:
    below = Project(Filter(A, Call(">", (TS, Literal(0)))), (Named("since", TS),))
    assert answer(Aggregate(below, (), RowWindow(3, 2), COUNT)) == [(-2, 1, 1), (0, 3, 3), (2, 5, 3), (4, 7, 1)]


def test_a_table_may_number_its_rows_itself() -> None:
    rows = table([(1, 1, 1.0), (2, 1, 1.0)]).append_column("#row", pa.array([0, 9], pa.int64()))
    got = batch_answer(Aggregate(A, (), RowWindow(5, 5), COUNT), {"a": rows})
    assert sorted(got.column("window_start").to_pylist()) == [0, 5]


def test_moments_group_by_times() -> None:
    assert answer(Aggregate(A, (), EqualTimes(("ts",)), COUNT)) == [(-7, 1), (1, 1), (2, 1), (3, 2), (5, 1)]


def test_the_arguments_of_aggregates_are_columns_of_the_input_whatever_the_results_are_called() -> None:
    named = (Aggregation("f", "count", None), Aggregation("ts", "max", F), Aggregation("g", "min", TS))
    assert answer(Aggregate(A, (), Window("ts", 100, 100), named), [(1, 2, 3.0)]) == [(0, 100, 1, 3.0, 1)]


def test_top_breaks_ties_by_all_columns_and_numbers_rows() -> None:
    rows: list[Row] = [(2, 1, 5.0), (1, 1, 5.0), (3, 1, 4.0), (4, 2, None), (5, 2, 1.0)]
    by = (Order(F, descending=True),)
    assert answer(TopN(A, (K,), None, by, 2, "rn"), rows) == [
        (1, 1, 5.0, 1),
        (2, 1, 5.0, 2),
        (4, 2, None, 2),
        (5, 2, 1.0, 1),
    ]
    assert answer(TopN(A, (K,), None, (Order(F, nulls_first=True),), 1, None), rows) == [(3, 1, 4.0), (4, 2, None)]
    assert len(answer(TopN(A, (), "ts", by, 1, None), rows)) == 5


INNER = [(1, 1, 0.0, 1, 1, 9.0), (2, 1, 0.0, 1, 1, 9.0), (2, 1, 0.0, 2, 1, 9.0)]
LEFT_ALONE = [(-7, 1, 2.0), (3, 2, "nan"), (3, 2, "nan"), (5, None, 1.0)]
RIGHT_ALONE = [(2, 9, 9.0), (5, None, 9.0)]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("inner", INNER),
        ("left", [*INNER, *((*row, None, None, None) for row in LEFT_ALONE)]),
        ("right", [*INNER, *((None, None, None, *row) for row in RIGHT_ALONE)]),
        (
            "full",
            [
                *INNER,
                *((*row, None, None, None) for row in LEFT_ALONE),
                *((None, None, None, *row) for row in RIGHT_ALONE),
            ],
        ),
        ("semi", [(1, 1, 0.0), (2, 1, 0.0)]),
        ("anti", LEFT_ALONE),
    ],
)
def test_joins(kind: str, expected: list[Row]) -> None:
    assert sorted(answer(join(kind)), key=repr) == sorted(
        (tuple(-0.0 if (i, v) == (2, 0.0) and row[0] == 2 else v for i, v in enumerate(row)) for row in expected),
        key=repr,
    )


def test_nan_joins_nan_and_null_joins_nothing() -> None:
    rows: list[Row] = [(1, 1, NAN), (1, 2, None), (1, 3, 0.0)]
    others: list[Row] = [(1, 4, NAN), (1, 5, None), (1, 6, -0.0)]
    assert [(row[1], row[4]) for row in answer(join(key=F), rows, others)] == [(1, 4), (3, 6)]


def test_the_condition_of_an_outer_join_decides_what_is_a_partner() -> None:
    condition = Call(">", (Column("f2"), Literal(1.0)))
    assert answer(join("left", condition=condition), [(1, 1, 1.0)], [(1, 1, 0.0)]) == [(1, 1, 1.0, None, None, None)]


def test_a_join_of_three_inputs_at_the_limits_of_time() -> None:
    names = (*NAMES, ("ts3", "k3", "f3"))
    bands = (Band(0, 1, 1, None), Band(0, 2, 0, 0))
    node = Join((A, B, A), "inner", ((K,), (K,), (K,)), ("ts",) * 3, bands, None, names)
    most, least = 2**63 - 1, -(2**63)
    got = answer(node, [(most, 1, 0.0), (least, 1, 0.0)], [(most - 1, 1, 0.0), (most - 2, 1, 0.0)])
    assert sorted((row[0], row[3], row[6]) for row in got) == [
        (least, most - 2, least),
        (least, most - 1, least),
        (most, most - 1, most),
    ]


def test_the_last_rows_of_each_input_before_a_row_of_the_other() -> None:
    node = Join((A, B), "inner", ((), ()), ("ts", "ts"), (), Call("<>", (F, Column("f2"))), NAMES, (1, 2))
    rows: list[Row] = [(1, 0, 0.0), (2, 1, 0.0), (2, 2, 0.0), (9, 3, 0.0)]
    others: list[Row] = [(1, 0, 5.0), (2, 1, 5.0), (3, 2, 5.0), (4, 3, 5.0)]
    # in order: a0 b0 a1 a2 b1 b2 b3 a3
    assert [(row[1], row[4]) for row in answer(node, rows, others)] == [
        (0, 0), (1, 0), (2, 0), (2, 1), (2, 2), (2, 3), (3, 2), (3, 3),
    ]  # fmt: skip


def test_a_function_over_batches_is_run_once_on_all_rows() -> None:
    seen: list[int] = []

    def twice(rows: pa.Table) -> pa.Table:
        seen.append(rows.num_rows)
        return pa.concat_tables([rows, rows])

    node = MapBatches(InOrder(A, "ts"), BatchFunction("twice", twice), SCHEMA, "ts")
    assert len(answer(Union((node, node)))) == 24
    assert seen == [6]
    assert answer(node, []) == []
