"""Unbounded streams: a result that is complete only at the end of a stream never appears, and its state grows without
bound."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.errors import QueryError
from penstock.plan.logical import Node, Source, inputs_of


def require_end(node: Node, what: str, hint: str) -> None:
    """Raise QueryError if a source below `node` is unbounded. `what` names the operator, whose rows are known only when
    all of its input was read."""
    for source in _sources(node):
        if not getattr(source.connector, "bounded", True):  # a connector without the attribute may be bounded
            raise QueryError(
                f"{what} without a time needs a stream that ends",
                detail=f"source `{source.name}` is unbounded: no row would be produced, and all rows would be kept",
                hint=hint,
            )


def _sources(node: Node) -> Iterator[Source]:
    """Yield each source below a node once."""
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
