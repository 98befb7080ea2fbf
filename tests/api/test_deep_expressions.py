"""Long chains of operators: as deep as SQL allows, and refused in plain words beyond that."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import pyarrow as pa
import pytest

import penstock as ps
from penstock.api.columns import ColumnExpr
from penstock.api.streams import Stream
from penstock.errors import QueryError
from penstock.plan.logical import Filter, Node, Union
from penstock.plan.size import MAX_HEIGHT, MAX_NODES

ROWS = ps.read.table([{"ts": n, "v": n} for n in range(5)], time="ts")


def added(times: int) -> ColumnExpr:
    return reduce(lambda sum_, _: sum_ + 1, range(times), ps.col("v"))


def result(stream: Stream) -> pa.Table:
    return stream.to.memory().start(master="inline").wait().result()


def test_as_deep_as_allowed_is_computed() -> None:
    assert result(ROWS.select("ts", x=added(MAX_HEIGHT)))["x"].to_pylist() == [n + MAX_HEIGHT for n in range(5)]


def test_deep_expressions_of_several_selects_are_not_put_together() -> None:
    stream = ROWS.with_columns(v=added(150)).with_columns(v=added(150)).with_columns(v=added(150))
    assert result(stream)["v"].to_pylist() == [n + 450 for n in range(5)]


USES: dict[str, Callable[[], object]] = {
    "select(x=...)": lambda: ROWS.select(x=added(250)),
    "where(...)": lambda: ROWS.where(reduce(lambda a, b: a | b, [ps.col("v") == n for n in range(250)])),
    "sum(...)": lambda: ROWS.window(ps.tumbling(2)).agg(x=ps.sum(added(250))),
}


@pytest.mark.parametrize("where", USES)
def test_deeper_ones_are_refused(where: str) -> None:
    with pytest.raises(QueryError, match="nested more than 200 operators deep") as caught:
        USES[where]()
    assert where in caught.value.what
    assert "is_in" in caught.value.hint


def test_streams_with_too_many_operators_behind_one_another_are_refused() -> None:
    high: Node = ROWS.node
    for _ in range(MAX_HEIGHT):
        high = Filter(high, ps.lit(True).tree)
    with pytest.raises(QueryError, match="more than 200 operators in a row"):
        Stream(high).where("v > 1")


def test_streams_that_double_too_often_are_refused() -> None:
    node: Node = ROWS.node
    for _ in range(10):
        node = Union((node, node))
    with pytest.raises(QueryError, match=f"more than {MAX_NODES} operators"):
        Stream(node).union(ROWS)
