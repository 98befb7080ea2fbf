"""Comparisons in conditions: with their sides exchanged, and the two that a BETWEEN consists of."""

from __future__ import annotations

from penstock.expr.tree import Call, Expr

MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}  # the operator after the sides are exchanged


def halves_of(condition: Expr) -> tuple[Expr, ...]:
    """Split a BETWEEN into its two comparisons; any other condition stays one."""
    match condition:
        case Call("between", (operand, low, high)):
            return Call(">=", (operand, low)), Call("<=", (operand, high))
    return (condition,)
