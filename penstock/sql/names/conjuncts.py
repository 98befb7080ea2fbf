"""Conditions as the list of what all has to hold."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from penstock.expr.tree import Call, Expr, Literal


def conjuncts_of(predicate: Expr) -> tuple[Expr, ...]:
    """The parts of an AND, also of one inside another; TRUE has none."""
    match predicate:
        case Call("and", arguments):
            return tuple(part for argument in arguments for part in conjuncts_of(argument))
        case Literal(True):
            return ()
    return (predicate,)


def all_of(conjuncts: Iterable[Expr]) -> Expr | None:
    """The condition that all of them hold, written as the parser writes it; None where there are none."""
    parts = list(conjuncts)
    return reduce(lambda left, right: Call("and", (left, right)), parts) if parts else None
