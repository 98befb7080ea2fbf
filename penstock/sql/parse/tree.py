"""Read properties of a sqlglot tree: its place in the text, its depth, its parts."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager

from sqlglot import exp

from penstock.sql.parse.place import ScriptText


def offset_of(node: exp.Expr) -> int:
    """Return the lowest known offset of the tree and its descendants, or -1. sqlglot records offsets of names only."""
    return min((int(n.meta["start"]) for n in node.walk() if "start" in n.meta), default=-1)


def place_of(node: exp.Expr) -> int:
    """Return the offset of the tree, or of its nearest ancestor with a known offset, or 0."""
    around: exp.Expr | None = node
    while around is not None:
        if (offset := offset_of(around)) >= 0:
            return offset
        around = around.parent
    return 0


def placing(node: exp.Expr, text: ScriptText) -> AbstractContextManager[None]:
    """Add the place of the tree to errors raised inside."""
    return text.placing(lambda: place_of(node))


def extra_parts(node: exp.Expr, known: Collection[str]) -> Iterator[str]:
    """Yield the names of the parts of a tree that are set and not in `known`."""
    return (part for part, value in node.args.items() if value and part not in known)


def without_parentheses(node: exp.Expr) -> exp.Expr:
    """Return the tree without enclosing parentheses."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def dotted_names(column: exp.Column) -> list[str]:
    """Return the names of a column reference such as `a.b.c`, from left to right."""
    return [part for key in ("catalog", "db", "table") if (part := column.text(key))] + [str(column.name)]
