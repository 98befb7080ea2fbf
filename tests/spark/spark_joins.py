"""Joins in batch by Spark: its own joins of all kinds, with all that a pair must fulfil in their conditions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from spark_expressions import column, named
from spark_times import integer

from penstock.plan.logical import Join

_KINDS = {"left": "left", "right": "right", "full": "full", "semi": "left_semi", "anti": "left_anti"}


def join(node: Join, below: Sequence[DataFrame]) -> DataFrame:
    """`#i key n` and `#i time` are helper columns of input i."""
    sides = [_side(node, i, frame) for i, frame in enumerate(below)]
    shown = [name for names in node.names for name in names]
    if node.kind == "inner":
        return _inner(node, sides).select(*map(named, shown))
    joined = sides[0].join(sides[1], _all([*_matching(node, 1), *_condition(node)]), _KINDS[node.kind])
    return joined.select(*map(named, node.names[0] if node.kind in ("semi", "anti") else shown))


def _inner(node: Join, sides: Sequence[DataFrame]) -> DataFrame:
    """Each input in turn is joined to those before it; the condition, which may be on all, comes last."""
    joined = sides[0]
    for i, side in enumerate(sides[1:], 1):
        joined = joined.join(side, _all(list(_matching(node, i))), "inner")
    return joined.where(_all(_condition(node)))


def _side(node: Join, i: int, frame: DataFrame) -> DataFrame:
    renamed = [named(old).alias(new) for old, new in zip(frame.columns, node.names[i], strict=True)]
    keys = [column(key).alias(f"#{i} key {n}") for n, key in enumerate(node.keys[i])]
    return frame.select(*renamed, *keys, integer(frame, node.times[i]).alias(f"#{i} time"))


def _matching(node: Join, i: int) -> Iterator[Column]:
    """What input i and those before it must fulfil. A null equals nothing, in Spark too."""
    for n in range(len(node.keys[0]) if node.keys else 0):
        yield named(f"#0 key {n}") == named(f"#{i} key {n}")
    for band in node.bands:
        if max(band.left, band.right) == i:
            left, right = named(f"#{band.left} time"), named(f"#{band.right} time")
            if band.before is not None:
                yield right >= left - F.lit(band.before)
            if band.after is not None:
                yield right <= left + F.lit(band.after)


def _condition(node: Join) -> list[Column]:
    return [] if node.condition is None else [column(node.condition)]


def _all(conditions: Sequence[Column]) -> Column:
    return reduce(and_, conditions, F.lit(True))
