"""Comparisons that are decided by sorting give what DuckDB gives, whatever the two types."""

from __future__ import annotations

import pickle
from datetime import date, datetime
from decimal import Decimal
from itertools import product
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from theta_case import Driver, in_batch

from penstock.expr.tree import Call, Column
from penstock.operators.theta_join import pairs as theta_pairs
from penstock.operators.theta_join.condition import parts_of
from penstock.operators.theta_join.join import GridJoin
from tests.support.amounts import some_of

NAN = float("nan")
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "tinyint": (pa.int8(), [-128, -1, 0, 1, 127]),
    "bigint": (pa.int64(), [-(2**63), -(2**53) - 1, 0, 1, 2**24 + 1, 2**53, 2**53 + 1, 2**63 - 1]),
    "float": (pa.float32(), [-0.0, 0.0, 0.1, 1.0, 2.0**24, NAN, float("inf")]),
    "double": (pa.float64(), [-0.0, 0.0, 0.1, 1.0, 2.0**53, 2.0**63, NAN, float("-inf")]),
    "decimal": (pa.decimal128(18, 3), [Decimal("-1.5"), Decimal("0.100"), Decimal("1.000"), Decimal("127")]),
    "narrow": (pa.decimal128(4, 1), [Decimal("-1.5"), Decimal("0.1"), Decimal("127")]),
    "boolean": (pa.bool_(), [True, False]),
    "text": (pa.string(), ["", "a", "A", "ab", "ä", "z", "\U0001f600", "\uffff", "a\0b"]),
    "blob": (pa.binary(), [b"", b"a", b"\xff", b"a\0"]),
    "date": (pa.date32(), [date(1969, 12, 31), date(1970, 1, 1), date(2026, 11, 16)]),
    "timestamp": (
        pa.timestamp("us"),
        [datetime(1969, 12, 31), datetime(1970, 1, 1), datetime(2026, 11, 16, 3, 4, 5, 6)],
    ),
}
TEXTS, TIMES = {"text", "blob"}, {"date", "timestamp"}
KINDS = (set(VALUES) - TEXTS - TIMES - {"boolean"}, {"boolean"}, {"text"}, {"blob"}, TIMES)
PAIRS = [pair for kind in KINDS for pair in product(sorted(kind), repeat=2)]


def side(type_: pa.DataType, values: list[Any], names: tuple[str, str]) -> pa.Table:
    column = pa.array([*values, None, None], type_)
    return pa.table([pa.array(range(len(column)), pa.int64()), column], names=list(names))


@pytest.mark.parametrize(("left", "right"), some_of(PAIRS), ids=str)
def test_all_comparisons(left: str, right: str, monkeypatch: pytest.MonkeyPatch, random: Random) -> None:
    monkeypatch.setattr(theta_pairs, "_SORTING", 0)
    inputs = (side(*VALUES[left], ("ta", "x")), side(*VALUES[right], ("tb", "y")))
    schemas = (inputs[0].schema, inputs[1].schema)
    for operator in ("<", "<=", ">", ">=", "="):
        condition = Call(operator, (Column("x"), Column("y")))
        join = GridJoin(schemas, ("ta", "tb"), (("ta",), ("tb",)), (), condition, (1, 2))
        found = Driver(join, inputs, join.times, random, 100).run()
        assert found == in_batch(f"SELECT ta, tb FROM left_rows, right_rows WHERE x {operator} y", *inputs)


@pytest.mark.parametrize(
    ("left", "right"), [(name, name) for name in VALUES] + [("tinyint", "bigint"), ("float", "double")]
)
def test_these_are_sorted(left: str, right: str) -> None:
    schemas = (pa.schema([("x", VALUES[left][0])]), pa.schema([("y", VALUES[right][0])]))
    (part,) = parts_of(Call("<", (Column("y"), Column("x"))), schemas)
    assert part.comparison is not None
    assert part.comparison.sides == (Column("x"), Column("y"))
    assert part.comparison.operator == ">"
    assert part.comparison.seen_from(1) == "<"


def test_a_result_of_one_side_only(random: Random) -> None:
    inputs = (side(*VALUES["bigint"], ("ta", "x")), side(*VALUES["text"], ("tb", "y")))
    join = GridJoin((inputs[0].schema, inputs[1].schema), ("ta", "tb"), (("x",), ()), (), None, (2, 2))
    assert join.output_times == ("", "", "", "")
    assert Driver(join, inputs, join.times, random, 5).run() == in_batch("SELECT x FROM left_rows, right_rows", *inputs)


def test_an_operator_is_a_value() -> None:
    schemas = (pa.schema([("ta", pa.int64())]), pa.schema([("tb", pa.int64())]))
    join = GridJoin(schemas, ("ta", "tb"), (("ta",), ()), (), Call("<", (Column("ta"), Column("tb"))))
    join.span(0)  # what it remembers does not matter
    assert pickle.loads(pickle.dumps(join)) == join
