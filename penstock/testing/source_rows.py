"""The sources of a query that hold their rows in memory, and those rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa

from penstock.connectors.memory import MemoryConnector
from penstock.plan.logical import Join, Node, Source, Union, inputs_of


def sources_of(*nodes: Node) -> dict[str, Source]:
    """The different sources below some nodes, by name."""
    found: dict[str, Source] = {}
    for node in nodes:
        found |= {node.name: node} if isinstance(node, Source) else sources_of(*inputs_of(node))
    return found


def tables_of(*nodes: Node) -> dict[str, pa.Table]:
    """The rows of all sources below some nodes, in the order of arrival."""
    return {name: pa.concat_tables(connector_of(source).batches) for name, source in sources_of(*nodes).items()}


def connector_of(source: Source) -> MemoryConnector:
    assert isinstance(source.connector, MemoryConnector), "only rows in memory can be looked at"
    return source.connector


def with_sources(node: Node, change: Callable[[Source], Source]) -> Node:
    """The same query over other sources."""
    match node:
        case Source():
            return change(node)
        case Union(inputs) | Join(inputs):
            return replace(node, inputs=tuple(with_sources(part, change) for part in inputs))
    return replace(node, input=with_sources(node.input, change))


def nodes_of(node: Node) -> Iterator[Node]:
    """The node and all below it."""
    yield node
    for part in inputs_of(node):
        yield from nodes_of(part)
