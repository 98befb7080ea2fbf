"""Walking a plan: apply a rule to every node, from the sources upwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from penstock.plan.logical import Join, Node, Source, Union


def bottom_up(node: Node, rule: Callable[[Node], Node]) -> Node:
    """The plan with `rule` applied to each node after it was applied to the node's inputs."""
    match node:
        case Source():
            return rule(node)
        case Union(inputs=inputs) | Join(inputs=inputs):
            return rule(replace(node, inputs=tuple(bottom_up(part, rule) for part in inputs)))
        case _:
            return rule(replace(node, input=bottom_up(node.input, rule)))
