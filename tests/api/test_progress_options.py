"""How users say what tells the progress of a source, and when it is idle."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pytest

import penstock as ps
from penstock.errors import ConfigError, QueryError
from penstock.expr.tree import Call, Column, Literal
from penstock.plan.logical import Source
from penstock.progress.mark import Ordered, Punctuated

ROWS = pa.table({"ts": pa.array([1], pa.int64()), "kind": ["row"], "n": [1]})


def source(**options: object) -> Source:
    node = ps.read.batches([ROWS], time="ts", **options).node  # type: ignore[arg-type]
    assert isinstance(node, Source)
    return node


def test_rows_that_are_punctuation() -> None:
    is_mark = Call("=", (Column("kind"), Literal("mark")))
    assert source(progress=ps.punctuated(ps.col("kind") == "mark")).progress == Punctuated(is_mark, keep=False)
    assert source(progress=ps.punctuated(ps.col("kind") == "mark", keep=True)).progress == Punctuated(is_mark, True)


def test_the_condition_is_checked_at_once() -> None:
    with pytest.raises(QueryError, match="unknown column `kid`"):
        source(progress=ps.punctuated(ps.col("kid") == "mark"))
    with pytest.raises(QueryError, match="not BOOLEAN"):
        source(progress=ps.punctuated(ps.col("n") + 1))


def test_a_source_is_waited_for_unless_it_may_be_idle() -> None:
    assert (source().idle, source().progress) == (None, Ordered())
    assert source(idle="10 seconds").idle == 10_000_000
    assert source(idle=timedelta(milliseconds=5)).idle == 5_000
    assert ps.read.calls(idle="1s").node.idle == 1_000_000  # type: ignore[union-attr]


@pytest.mark.parametrize("idle", ["0s", 0, -1, "-1s", 5, "soon"])
def test_an_idle_time_is_a_span_above_zero(idle: object) -> None:
    with pytest.raises(ConfigError):
        source(idle=idle)


def test_punctuation_may_be_sql_text() -> None:
    is_mark = Call("=", (Column("kind"), Literal("mark")))
    assert source(progress=ps.punctuated("kind = 'mark'")).progress == Punctuated(is_mark, keep=False)
    with pytest.raises(QueryError, match="unknown column `kid`") as caught:
        source(progress=ps.punctuated("kid = 'mark'"))
    assert "punctuated(...), line 1, column 1" in caught.value.detail
