from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.api.columns import ColumnExpr, as_expr, as_operand, call, col, lit, when
from penstock.errors import QueryError
from penstock.expr.evaluate.scalar import evaluate
from penstock.expr.text import text
from penstock.expr.tree import Call, Case, Cast, Column, Literal, Named

a, b = col("a"), col("b")


@pytest.mark.parametrize(
    ("built", "expected"),
    [
        (a + 1, "a + 1"),
        (1 + a, "1 + a"),
        (a - b, "a - b"),
        (5 - a, "5 - a"),
        (a * 2, "a * 2"),
        (2 * a, "2 * a"),
        (a / b, "a / b"),
        (1 / a, "1 / a"),
        (a // 2, "a // 2"),
        (9 // a, "9 // a"),
        (a % 2, "a % 2"),
        (9 % a, "9 % a"),
        (-a, "-a"),
        (a == "x", "a = 'x'"),
        (a != b, "a <> b"),
        (a < 1, "a < 1"),
        (1 < a, "a > 1"),  # noqa: SIM300
        (a <= 1, "a <= 1"),
        (a > 1, "a > 1"),
        (a >= 1, "a >= 1"),
        ((a > 1) & (b < 2) | ~(a == b), "a > 1 AND b < 2 OR NOT a = b"),
        (True & (a > 1), "TRUE AND a > 1"),
        (False | (a > 1), "FALSE OR a > 1"),
        (a.is_null(), "a IS NULL"),
        (a.is_not_null(), "a IS NOT NULL"),
        (a.is_in([1, 2]), "a IN (1, 2)"),
        (a.is_in([]), "FALSE"),
        (a.like("x%"), "a LIKE 'x%'"),
        (a.between(1, b), "a BETWEEN 1 AND b"),
        (a.cast("BIGINT"), "CAST(a AS BIGINT)"),
        (a.cast("BIGINT", lenient=True), "TRY_CAST(a AS BIGINT)"),
        (call("LOWER", a), "lower(a)"),
        (when(a > 1, "x").otherwise(None), "CASE WHEN a > 1 THEN 'x' ELSE NULL END"),
        (when(a, 1).when(b, 2).otherwise(3), "CASE WHEN a THEN 1 WHEN b THEN 2 ELSE 3 END"),
        (a + timedelta(seconds=1), "a + INTERVAL '1 second'"),
        (a > datetime(2026, 1, 1), "a > TIMESTAMP '2026-01-01 00:00:00'"),
        (np.int64(3) + a, "3 + a"),
        (a > np.float64(0.5), "a > 0.5e0"),
        (col("two words") + lit("x"), "\"two words\" + 'x'"),
    ],
)  # fmt: skip
def test_python_operators_build_trees(built: ColumnExpr, expected: str) -> None:
    assert repr(built) == text(built.tree) == expected


def test_trees_are_those_of_the_plan() -> None:
    assert (a + 1).tree == Call("+", (Column("a"), Literal(1)))
    assert a.cast("DATE").tree == Cast(Column("a"), "DATE")
    assert when(a, 1).otherwise(2).tree == Case(((Column("a"), Literal(1)),), Literal(2))


def test_they_evaluate() -> None:
    table = pa.table({"a": pa.array([1, 2, None], pa.int64())})
    expression = when((a > 1) & a.is_not_null(), a * 10).otherwise(-1).tree
    assert evaluate(table, [Named("x", expression)]).column(0).to_pylist() == [-1, 20, -1]


def test_a_string_is_a_constant_as_an_operand_and_a_name_as_a_column() -> None:
    assert as_expr("price") == Literal("price")
    assert as_operand("price") == "price"
    assert as_operand(a + 1) == (a + 1).tree
    assert as_operand(3) == Literal(3)
    assert as_expr(Column("a")) == Column("a")


def test_numpy_scalars_become_plain_values() -> None:
    for value, kind in ((np.int8(1), int), (np.float32(0.5), float), (np.bool_(True), bool)):
        tree = as_expr(value)
        assert isinstance(tree, Literal)
        assert type(tree.value) is kind


def test_there_is_no_truth_value() -> None:
    with pytest.raises(QueryError) as raised:
        bool(a > 1)
    assert "use & and |" in raised.value.hint
    with pytest.raises(QueryError):
        _ = 1 < a < 2
    with pytest.raises(QueryError):
        _ = 1 in [a]


@pytest.mark.parametrize("value", [[1], {"a": 1}, object(), np.datetime64("2026"), np.timedelta64(1, "s"), 1j])
def test_other_values_are_refused(value: Any) -> None:
    with pytest.raises(QueryError, match="cannot be part of an expression"):
        as_expr(value)


def test_mistakes_are_said_at_once() -> None:
    with pytest.raises(QueryError, match="unknown function"):
        call("lowr", a)
    with pytest.raises(QueryError, match="cannot be used"):
        call("random")
    with pytest.raises(QueryError, match="unknown type"):
        a.cast("BIGINTEGER_")
    with pytest.raises(QueryError, match="no ELSE"):
        _ = a + when(a > 1, 2)
    with pytest.raises(QueryError, match="several values"):
        a.is_in("abc")
    with pytest.raises(QueryError, match="not a list"):
        list(a)
    with pytest.raises(TypeError):
        hash(a)
