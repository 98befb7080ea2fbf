"""In-order mode: rows reach Python functions and the sink in order of time.

If the query orders rows itself before a function or the sink, that order is enough, also an order per key: then not all
rows have to pass through one site.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from penstock.plan.logical import (
    AssignWindows,
    Filter,
    InOrder,
    Join,
    MapBatches,
    Node,
    Project,
    Source,
    SplitRows,
    Union,
)
from penstock.plan.schema import time_column


def put_in_order(node: Node) -> Node:
    """Order rows before every Python function and before the sink."""
    return _ordered(bottom_up(node, _before_functions))


def _before_functions(node: Node) -> Node:
    match node:
        case MapBatches(input=below):
            return replace(node, input=_ordered(below))
        case _:
            return node


def _ordered(node: Node) -> Node:
    """Order a node by its time, unless it is ordered already. A result without a time has no order."""
    time = time_column(node)
    return node if time is None or _is_in_order(node) else InOrder(node, time)


def _is_in_order(node: Node) -> bool:
    """Return whether rows are already in an order that the query asks for; row-by-row operators do not change it."""
    match node:
        case Filter(input=below) | Project(input=below) | SplitRows(input=below) | AssignWindows(input=below):
            return _is_in_order(below)
    return isinstance(node, InOrder)


def bottom_up(node: Node, rule: Callable[[Node], Node]) -> Node:
    """Return the plan with `rule` applied to each node after its inputs."""
    match node:
        case Source():
            return rule(node)
        case Union(inputs=inputs) | Join(inputs=inputs):
            return rule(replace(node, inputs=tuple(bottom_up(part, rule) for part in inputs)))
        case _:
            return rule(replace(node, input=bottom_up(node.input, rule)))
