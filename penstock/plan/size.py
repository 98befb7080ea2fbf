"""Limits on the size of plans and expressions: all functions that traverse them recurse, and views of views add up."""

from __future__ import annotations

from penstock.expr.tree import Expr
from penstock.expr.walk import children
from penstock.plan.logical import Node, inputs_of

MAX_HEIGHT = 200
MAX_NODES = 2_000


def is_too_deep(expression: Expr) -> bool:
    """Return whether an expression is nested deeper than `MAX_HEIGHT`. Iterative, and stops at that depth."""
    waiting = [(expression, 0)]
    while waiting:
        part, depth = waiting.pop()
        if depth > MAX_HEIGHT:
            return True
        waiting.extend((inner, depth + 1) for inner in children(part))
    return False


def measured(node: Node) -> tuple[int, int]:
    """Return the height of a plan above its sources and its number of operators; an operator that is read twice counts
    twice."""
    return _measured(node, {})


def _measured(node: Node, known: dict[int, tuple[int, int]]) -> tuple[int, int]:
    if id(node) not in known:
        below = [_measured(part, known) for part in inputs_of(node)]
        height = max((high + 1 for high, _ in below), default=0)
        known[id(node)] = height, 1 + sum(count for _, count in below)
    return known[id(node)]
