"""Joins of more than two streams at once."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.api.join_nodes import Within, join_node, numbered_names
from penstock.api.streams import Stream
from penstock.errors import QueryError
from penstock.plan.compile.subqueries import node_schema


def join_all(
    streams: Sequence[Stream],
    on: object,
    *,
    within: Within,
    where: object | None = None,
    times: Sequence[str | None] | None = None,
) -> Stream:
    """Combinations of one row of each stream with equal keys, as one operator. `within` is how far the time of every
    later stream may be from that of the first; a column name that has been used before gets a number: `k`, `k_2`."""
    if len(streams) < 2:
        raise QueryError(
            "a join needs at least two streams",
            detail=f"it is given {len(streams)}",
            hint='list them, as in ps.join_all([a, b, c], on="k", within="5s")',
        )
    nodes = [stream.node for stream in streams]
    chosen = None if times is None else tuple(times)
    node = join_node(nodes, on=on, within=within, names=numbered_names(nodes), where=where, times=chosen)
    node_schema(node)
    return Stream(node)
