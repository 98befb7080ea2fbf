"""FROM as a tree of streams and joins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.expr.tree import Expr
from penstock.plan.schema import columns_of_node
from penstock.sql.joins.unit import Unit
from penstock.sql.names.scope import Scope
from penstock.sql.streams.stream import Stream


@dataclass(frozen=True)
class Leaf:
    """A stream of FROM. `names` are those of its columns in the rows of the query, `offset` its place in the text."""

    stream: Stream
    names: tuple[str, ...]
    offset: int

    @property
    def unit(self) -> Unit:
        alias = self.stream.name
        written = tuple(f"{alias}.{own}" if alias else own for own in columns_of_node(self.stream.node))
        return Unit(self.stream.node, self.names, alias or "a query without a name", written)


@dataclass(frozen=True)
class Joined:
    """Two parts of FROM, joined under conditions. `offset` is the place of the second part in the text; `last_rows` is
    given where the join is over the last rows of two streams."""

    kind: str
    left: Tree
    right: Tree
    on: tuple[Expr, ...]
    offset: int
    last_rows: tuple[int, int] | None = None


Tree = Leaf | Joined


@dataclass(frozen=True)
class From:
    """What FROM gives: how its streams are joined, and what names mean in it."""

    tree: Tree
    scope: Scope


def leaves_of(tree: Tree) -> Iterator[Leaf]:
    match tree:
        case Leaf():
            yield tree
        case Joined(left=left, right=right):
            yield from leaves_of(left)
            yield from leaves_of(right)


def names_of(tree: Tree) -> frozenset[str]:
    """The columns that a part of FROM gives, by their names in the rows."""
    match tree:
        case Leaf(names=names):
            return frozenset(names)
        case Joined(kind="semi" | "anti", left=left):
            return names_of(left)
        case Joined(left=left, right=right):
            return names_of(left) | names_of(right)
