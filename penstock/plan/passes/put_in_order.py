"""In-order mode: rows reach Python functions and the sink in order of time."""

from __future__ import annotations

from dataclasses import replace

from penstock.plan.columns import time_column
from penstock.plan.nodes import InOrder, MapBatches, Node
from penstock.plan.rewrite import bottom_up


def put_in_order(node: Node) -> Node:
    return _ordered(bottom_up(node, _before_functions))


def _before_functions(node: Node) -> Node:
    match node:
        case MapBatches(input=below):
            return replace(node, input=_ordered(below))
        case _:
            return node


def _ordered(node: Node) -> Node:
    """The node in order of its time, where it has one; a result without a time has no order to keep."""
    time = time_column(node)
    return node if time is None or isinstance(node, InOrder) else InOrder(node, time)
