"""How many operators a stream may have behind one another, and in all."""

from __future__ import annotations

from penstock.errors import QueryError
from penstock.plan.logical import Node
from penstock.plan.size import MAX_HEIGHT, MAX_NODES, measured


def check_size(node: Node) -> None:
    """Refuse a plan that is too high or too large to be walked."""
    height, count = measured(node)
    if height > MAX_HEIGHT:
        raise QueryError(
            f"the stream has more than {MAX_HEIGHT} operators behind one another",
            hint="put conditions together with &, and columns into one select or with_columns",
        )
    if count > MAX_NODES:
        raise QueryError(
            f"the stream has more than {MAX_NODES} operators",
            detail="a stream that is read twice counts twice",
            hint="read streams less often, or write one to files and read it from there",
        )
