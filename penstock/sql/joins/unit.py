"""An input of a join while it is planned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from penstock.expr.tree import Column, Expr, columns_of, substitute
from penstock.plan.compile.subqueries import node_schema
from penstock.plan.logical import Filter, Node
from penstock.plan.schema import columns_of_node, time_type, times_of
from penstock.sql.names.conjuncts import all_of


@dataclass(frozen=True)
class Unit:
    """`names` are what the columns of the node are called in the rows of the query. For messages there are `label`, and
    `written`: how the user writes the columns."""

    node: Node
    names: tuple[str, ...]
    label: str
    written: tuple[str, ...]

    @property
    def own_to_row(self) -> Iterator[tuple[str, str]]:
        """The node's own columns, and what they are called in the rows."""
        return zip(columns_of_node(self.node), self.names, strict=True)

    @cached_property
    def times(self) -> tuple[str, ...]:
        """The progressing attributes as they are called in the rows, the usual one first."""
        named = dict(self.own_to_row)
        return tuple(named[time] for time in times_of(self.node))

    @property
    def has_timestamps(self) -> bool:
        return bool(self.times) and bool(pa.types.is_timestamp(time_type(self.node)))

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of the node itself."""
        return node_schema(self.node)

    def inside(self, expression: Expr) -> Expr:
        """An expression over the rows of the query as one over the node's own columns."""
        return substitute(expression, {row: Column(own) for own, row in self.own_to_row})

    def reads(self, expression: Expr) -> bool:
        """Whether an expression reads a column of this input."""
        return not set(columns_of(expression)).isdisjoint(self.names)

    def filtered(self, conjuncts: tuple[Expr, ...]) -> Unit:
        """The rows for which all of the conditions hold."""
        condition = all_of(map(self.inside, conjuncts))
        return self if condition is None else replace(self, node=Filter(self.node, condition))


def owner(name: str, units: Sequence[Unit]) -> int:
    """The input whose column this is."""
    return next(index for index, unit in enumerate(units) if name in unit.names)
