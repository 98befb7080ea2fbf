"""In-order mode: rows reach Python functions and the sink in order of time.

Where a query puts rows in order itself, before a function or the sink, that order is enough, also if it is one for each
key: then not all of them have to pass through one site.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from penstock.plan.logical import Filter, InOrder, Join, MapBatches, Node, Project, Source, Split, Union, Windows
from penstock.plan.schema import time_column


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
    return node if time is None or _is_in_order(node) else InOrder(node, time)


def _is_in_order(node: Node) -> bool:
    """Whether rows come in an order that the query asks for; what works row by row does not change it."""
    match node:
        case Filter(input=below) | Project(input=below) | Split(input=below) | Windows(input=below):
            return _is_in_order(below)
    return isinstance(node, InOrder)


def bottom_up(node: Node, rule: Callable[[Node], Node]) -> Node:
    """The plan with `rule` applied to each node after it was applied to the node's inputs."""
    match node:
        case Source():
            return rule(node)
        case Union(inputs=inputs) | Join(inputs=inputs):
            return rule(replace(node, inputs=tuple(bottom_up(part, rule) for part in inputs)))
        case _:
            return rule(replace(node, input=bottom_up(node.input, rule)))
