"""Streams that do not end: what is only known at the end of a stream never comes there, and its state grows."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.errors import QueryError
from penstock.plan.logical import Node, Source, inputs_of


def require_end(node: Node, what: str, hint: str) -> None:
    """Refuse `what`, whose rows are known when all of its input has come, over a source that does not end."""
    for source in _sources(node):
        if not getattr(source.connector, "bounded", True):  # a connector that does not say so may well end
            raise QueryError(
                f"{what} without a time needs a stream that ends",
                detail=f"source `{source.name}` has no end: no row would ever come out, and all would be kept for ever",
                hint=hint,
            )


def _sources(node: Node) -> Iterator[Source]:
    waiting: list[Node] = [node]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, Source):
            yield one
        waiting.extend(inputs_of(one))
