"""The in-memory sources of a query, and their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa

from penstock.connectors.memory import MemoryConnector
from penstock.errors import SourceError
from penstock.plan.logical import Join, Node, Source, Union, inputs_of


def sources_of(*nodes: Node) -> dict[str, Source]:
    """Return the different sources below these nodes, by name."""
    found: dict[str, Source] = {}
    for node in nodes:
        found |= {node.name: node} if isinstance(node, Source) else sources_of(*inputs_of(node))
    return found


def tables_of(*nodes: Node) -> dict[str, pa.Table]:
    """Return the rows of all sources below these nodes, in order of arrival."""
    return {name: pa.concat_tables(connector_of(source).batches) for name, source in sources_of(*nodes).items()}


def connector_of(source: Source) -> MemoryConnector:
    """Return the connector of an in-memory source; raise SourceError for any other."""
    if not isinstance(source.connector, MemoryConnector):
        raise SourceError(
            f"the rows of the source `{source.name}` are not in memory",
            detail=f"it reads from a {type(source.connector).__name__}",
            hint=f"give them as a table: {{'{source.name}': rows}}, or read them with ps.read.batches(...)",
        )
    return source.connector


def with_sources(node: Node, change: Callable[[Source], Source]) -> Node:
    """Return the query with each source replaced by `change(source)`."""
    match node:
        case Source():
            return change(node)
        case Union(inputs) | Join(inputs):
            return replace(node, inputs=tuple(with_sources(part, change) for part in inputs))
    return replace(node, input=with_sources(node.input, change))


def nodes_of(node: Node) -> Iterator[Node]:
    """Yield the node and all nodes below it."""
    yield node
    for part in inputs_of(node):
        yield from nodes_of(part)
