"""Small questions to a sqlglot tree: where it stands in the text, how deep it is, what it carries."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager

from sqlglot import exp

from penstock.sql.parse.dialect import MAX_NESTING, too_deep
from penstock.sql.parse.place import ScriptText


def offset_of(node: exp.Expr) -> int:
    """Where a tree starts: the first place known of it or anything below it. The parser records those of names."""
    return min((int(n.meta["start"]) for n in node.walk() if "start" in n.meta), default=-1)


def place_of(node: exp.Expr) -> int:
    """Where a tree stands: its start, or that of the nearest thing around it whose place is known."""
    around: exp.Expr | None = node
    while around is not None:
        if (offset := offset_of(around)) >= 0:
            return offset
        around = around.parent
    return 0


def placing(node: exp.Expr, text: ScriptText) -> AbstractContextManager[None]:
    """Errors from inside say where in the text the tree stands."""
    return text.placing(lambda: place_of(node))


def extra_parts(node: exp.Expr, known: Collection[str]) -> Iterator[str]:
    """The parts of a tree that are there and not among those known."""
    return (part for part, value in node.args.items() if value and part not in known)


def without_parentheses(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def dotted_names(column: exp.Column) -> list[str]:
    """The names of a column with dots between them, from left to right."""
    return [part for key in ("catalog", "db", "table") if (part := column.text(key))] + [str(column.name)]


def check_depth(root: exp.Expr, text: ScriptText) -> None:
    """Refuse a tree that is too deep to walk; long chains such as `a + b + c` are deep without parentheses."""
    waiting = [(root, 0)]
    while waiting:
        node, depth = waiting.pop()
        if depth > MAX_NESTING:
            raise too_deep(text, place_of(root))
        deeper = depth if isinstance(node, exp.Paren) else depth + 1
        waiting.extend((child, deeper) for child in node.iter_expressions())
