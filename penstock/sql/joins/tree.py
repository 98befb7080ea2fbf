"""FROM as a tree of streams and joins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.expr.tree import Expr
from penstock.plan.schema import columns_of_node
from penstock.sql.joins.unit import Unit
from penstock.sql.names.scope import Scope
from penstock.sql.streams.stream import FromStream


@dataclass(frozen=True)
class Leaf:
    """A stream of FROM. `names` are its columns' names in the rows of the query, `offset` is its place in the text."""

    stream: FromStream
    names: tuple[str, ...]
    offset: int

    @property
    def unit(self) -> Unit:
        """Return the stream as an input of a join."""
        alias = self.stream.name
        written = tuple(f"{alias}.{own}" if alias else own for own in columns_of_node(self.stream.node))
        return Unit(self.stream.node, self.names, alias or "a query without a name", written)


@dataclass(frozen=True)
class Joined:
    """A join of two parts of FROM. `offset` is the place of the right part in the text.

    `last_rows` has the two sizes if the join is over the last rows of two streams.
    """

    kind: str
    left: Tree
    right: Tree
    on: tuple[Expr, ...]
    offset: int
    last_rows: tuple[int, int] | None = None


Tree = Leaf | Joined


@dataclass(frozen=True)
class From:
    """A FROM clause: the tree of its joins, and the scope of its names."""

    tree: Tree
    scope: Scope


def leaves_of(tree: Tree) -> Iterator[Leaf]:
    """Yield the streams of the tree, from left to right."""
    match tree:
        case Leaf():
            yield tree
        case Joined(left=left, right=right):
            yield from leaves_of(left)
            yield from leaves_of(right)


def names_of(tree: Tree) -> frozenset[str]:
    """Return the columns of a part of FROM by their names in the rows; semi and anti joins have those of the left
    only."""
    match tree:
        case Leaf(names=names):
            return frozenset(names)
        case Joined(kind="semi" | "anti", left=left):
            return names_of(left)
        case Joined(left=left, right=right):
            return names_of(left) | names_of(right)
