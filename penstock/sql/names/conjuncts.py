"""Split a condition into the conjuncts of its AND, and join conjuncts into a condition."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from penstock.expr.tree import Call, Expr, Literal


def conjuncts_of(predicate: Expr) -> tuple[Expr, ...]:
    """Return the conjuncts of the predicate, with nested ANDs flattened; TRUE has none."""
    match predicate:
        case Call("and", arguments):
            return tuple(part for argument in arguments for part in conjuncts_of(argument))
        case Literal(True):
            return ()
    return (predicate,)


def all_of(conjuncts: Iterable[Expr]) -> Expr | None:
    """Return the AND of the conjuncts, nested to the left as the parser does it; None if there are none."""
    parts = list(conjuncts)
    return reduce(lambda left, right: Call("and", (left, right)), parts) if parts else None
