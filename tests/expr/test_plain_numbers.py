"""What is computed without DuckDB is what DuckDB computes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.expr.evaluate import connection as duck
from penstock.expr.evaluate.duckdb_tree import build
from penstock.expr.evaluate.scalar import evaluate, keep, plain, result_schema
from penstock.expr.tree import Call, Column, Expr, Literal, Named

ROWS = pa.schema([("n", pa.int64()), ("i", pa.int32()), ("f", pa.float64())])
LIMITS = [-(2**63), -(2**63) + 1, -1, 0, 1, 7, 2**63 - 1]
whole = st.one_of(st.sampled_from(LIMITS), st.integers(-(2**63), 2**63 - 1))
constants = st.one_of(st.sampled_from(LIMITS[1:]), st.integers(-(2**63) + 1, 2**63 - 1))


@st.composite
def expressions(draw: st.DrawFn) -> Expr:
    value: Expr = Column("n")
    for _ in range(draw(st.integers(0, 2))):
        value = Call("%", (value, Literal(draw(st.integers(1, 2**63 - 1)))))
    if isinstance(value, Call) and draw(st.booleans()):
        return value
    return Call(draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="])), (value, Literal(draw(constants))))


@settings(deadline=None, max_examples=200)
@given(expressions(), st.lists(st.one_of(st.none(), whole), max_size=8))
def test_plain_expressions_mean_what_they_mean_to_duckdb(expression: Expr, values: list[int | None]) -> None:
    rows = pa.table({"n": pa.array(values, pa.int64())})
    assert plain(rows.schema, expression) is not None
    type_ = result_schema(rows.schema, (Named("x", expression),)).field(0).type
    _, expected = duck.select(rows.rename_columns(["c0"]), [build(expression, {"n": "c0"})])
    found = evaluate(rows, (Named("x", expression),)).column(0)
    assert found.type == type_
    assert found.to_pylist() == expected.column(0).to_pylist()


@pytest.mark.parametrize(
    "expression",
    [
        Call("%", (Column("n"), Literal(0))),  # null, or an error: DuckDB knows
        Call("%", (Column("n"), Literal(-3))),
        Call("%", (Column("n"), Literal(True))),
        Call("%", (Column("n"), Literal(2.5))),
        Call("%", (Column("i"), Literal(3))),  # an INTEGER stays one
        Call("%", (Column("n"), Column("n"))),
        Call("=", (Column("f"), Literal(3))),
        Call("=", (Column("n"), Literal(3.0))),
        Call("<", (Column("n"), Literal(2**63))),
        Call("+", (Column("n"), Literal(1))),  # may overflow
        Column("n"),
    ],
)
def test_all_others_are_left_to_duckdb(expression: Expr) -> None:
    assert plain(ROWS, expression) is None


def test_plain_ones_and_others_together() -> None:
    rows = pa.table({"n": [5, None, -7]})
    named = [Named(name, e) for name, e in _mixed().items()]
    expected: dict[str, Any] = {
        "n": [5, None, -7],
        "rest": [2, None, -1],
        "next": [6, None, -6],
        "small": [False, None, True],
    }
    assert evaluate(rows, named).to_pydict() == expected
    assert keep(rows, _mixed()["small"]).to_pydict() == {"n": [-7]}


def _mixed() -> dict[str, Expr]:
    n = Column("n")
    return {
        "n": n,
        "rest": Call("%", (n, Literal(3))),
        "next": Call("+", (n, Literal(1))),
        "small": Call("<", (n, Literal(0))),
    }
