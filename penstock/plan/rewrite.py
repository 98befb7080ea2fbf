"""Walking a plan: apply a rule to every node, from the sources upwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from penstock.plan.nodes import Node, Source


def bottom_up(node: Node, rule: Callable[[Node], Node]) -> Node:
    """The plan with `rule` applied to each node after it was applied to the node's input."""
    if isinstance(node, Source):
        return rule(node)
    return rule(replace(node, input=bottom_up(node.input, rule)))
