"""Distinct, top-n and order: operators that give rows as they came."""

from __future__ import annotations

from penstock.expr.tree import Column, Named
from penstock.operators.distinct import DistinctRows
from penstock.operators.reorder import Reorder
from penstock.operators.top import OrderColumn, TopRows
from penstock.operators.window.lateness import NeverCloses
from penstock.plan.compile.flow import Stream
from penstock.plan.compile.prepare import Prepared, closing_as, closing_by, computed, following, following_the_end
from penstock.plan.logical import Distinct, InOrder, TopN
from penstock.plan.options import CompileOptions


def prepare_distinct(node: Distinct, below: Stream, options: CompileOptions) -> Prepared:
    operator = DistinctRows(node.time, below.schema, options.hash_bits)
    return Prepared(operator, (below,), (following(below, node.time),), (closing_by(node.time),))


def prepare_in_order(node: InOrder, below: Stream, options: CompileOptions) -> Prepared:
    operator = Reorder(node.time, below.schema, node.by, options.hash_bits)
    return Prepared(operator, (below,), (following(below, node.time),), (closing_by(node.time),))


def prepare_top(node: TopN, below: Stream, options: CompileOptions) -> Prepared:
    columns = tuple(below.schema.names)
    keys = [Named(f"#key.{i}", key) for i, key in enumerate(node.keys)]
    orders = [Named(f"#order.{i}", order.expression) for i, order in enumerate(node.order)]
    stream = computed(below, [*(Named(name, Column(name)) for name in columns), *keys, *orders])
    operator = TopRows(
        keys=tuple(named.name for named in keys),
        time=node.time,
        order=tuple(
            OrderColumn(named.name, order.descending, order.nulls_first)
            for named, order in zip(orders, node.order, strict=True)
        ),
        n=node.n,
        number=node.number,
        columns=columns,
        input_schema=stream.schema,
        hash_bits=options.hash_bits,
    )
    if node.time is None:  # nothing is decided before the end, so nothing comes too late
        return Prepared(operator, (stream,), (following_the_end(),), (closing_as(NeverCloses()),))
    return Prepared(operator, (stream,), (following(below, node.time),), (closing_by(node.time),))
