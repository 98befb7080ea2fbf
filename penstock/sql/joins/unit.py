"""An input of a join during planning."""

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
    """An input of a join. `names` are the names of the node's columns in the rows of the query, in the node's order.

    For messages: `label` names the input, `written` are the columns as the user writes them.
    """

    node: Node
    names: tuple[str, ...]
    label: str
    written: tuple[str, ...]

    @property
    def own_to_row(self) -> Iterator[tuple[str, str]]:
        """Yield the node's own column names with their names in the rows."""
        return zip(columns_of_node(self.node), self.names, strict=True)

    @cached_property
    def times(self) -> tuple[str, ...]:
        """Return the progressing attributes by their names in the rows, the default one first."""
        named = dict(self.own_to_row)
        return tuple(named[time] for time in times_of(self.node))

    @property
    def has_timestamps(self) -> bool:
        """Return whether the time column is a TIMESTAMP."""
        return bool(self.times) and bool(pa.types.is_timestamp(time_type(self.node)))

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the schema of the node."""
        return node_schema(self.node)

    def inside(self, expression: Expr) -> Expr:
        """Rewrite an expression over the rows of the query to the node's own columns."""
        return substitute(expression, {row: Column(own) for own, row in self.own_to_row})

    def reads(self, expression: Expr) -> bool:
        """Return whether the expression reads a column of this input."""
        return not set(columns_of(expression)).isdisjoint(self.names)

    def filtered(self, conjuncts: tuple[Expr, ...]) -> Unit:
        """Return the input with only the rows that satisfy all conjuncts."""
        condition = all_of(map(self.inside, conjuncts))
        return self if condition is None else replace(self, node=Filter(self.node, condition))


def owner(name: str, units: Sequence[Unit]) -> int:
    """Return the index of the input that has the column. Precondition: one of them has it."""
    return next(index for index, unit in enumerate(units) if name in unit.names)
