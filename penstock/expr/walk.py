"""Walks of expressions: their operands, their parts, the columns they read, what replaces them, the operands of an
AND."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import reduce

from penstock.expr.tree import Call, Case, Cast, Column, Expr, Literal


def children(expression: Expr) -> tuple[Expr, ...]:
    """Return the direct operands of an expression, in order."""
    match expression:
        case Call(_, arguments):
            return arguments
        case Cast(operand):
            return (operand,)
        case Case(branches, default):
            return (*(part for branch in branches for part in branch), default)
    return ()


def walk(expression: Expr) -> Iterator[Expr]:
    """Yield the expression and all its parts in the order of the text, with repetitions. Iterative, so that no nesting
    is too deep."""
    waiting = [expression]
    while waiting:
        part = waiting.pop()
        yield part
        waiting.extend(reversed(children(part)))


def columns_of(expression: Expr) -> Iterator[str]:
    """Yield the names of the columns an expression reads, in order of appearance, with repetitions."""
    return (part.name for part in walk(expression) if isinstance(part, Column))


def replaced(expression: Expr, rule: Callable[[Expr], Expr | None]) -> Expr:
    """Replace each part for which `rule` returns an expression, from the root downwards."""
    if (other := rule(expression)) is not None:
        return other
    match expression:
        case Call(function, arguments):
            return Call(function, tuple(replaced(a, rule) for a in arguments))
        case Cast(operand, type_, lenient):
            return Cast(replaced(operand, rule), type_, lenient)
        case Case(branches, default):
            return Case(tuple((replaced(c, rule), replaced(v, rule)) for c, v in branches), replaced(default, rule))
    return expression


def substitute(expression: Expr, bindings: dict[str, Expr]) -> Expr:
    """Return the expression with each column named in `bindings` replaced by its binding."""
    return replaced(expression, lambda part: bindings.get(part.name) if isinstance(part, Column) else None)


def conjuncts_of(predicate: Expr) -> tuple[Expr, ...]:
    """Return the conjuncts of the predicate, with nested ANDs flattened; TRUE has none."""
    match predicate:
        case Call(function, arguments) if function.lower() == "and":
            return tuple(part for argument in arguments for part in conjuncts_of(argument))
        case Literal(True):
            return ()
    return (predicate,)


def all_of(conjuncts: Iterable[Expr]) -> Expr | None:
    """Return the AND of the conjuncts, nested to the left as the parser does it; None if there are none."""
    parts = list(conjuncts)
    return reduce(lambda left, right: Call("and", (left, right)), parts) if parts else None
