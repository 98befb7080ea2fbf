"""How large a plan may get: views of views add up, and a view that is read twice counts twice."""

from __future__ import annotations

from penstock.plan.nodes import Node, inputs_of
from penstock.sql.dialect import MAX_NESTING, too_deep
from penstock.sql.place import ScriptText

MAX_NODES = 2_000


def check_size(node: Node, text: ScriptText, offset: int) -> None:
    """Refuse a plan that is too high or too large to be walked."""
    height, count = _measured(node, {})
    if height > MAX_NESTING:
        raise too_deep(text, offset)
    if count > MAX_NODES:
        what = f"the query has more than {MAX_NODES} operators"
        raise text.error(what, offset, detail="a view that is read twice counts twice", hint="read views less often")


def _measured(node: Node, known: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """The height of a plan above its sources, and how many operators it has."""
    if id(node) not in known:
        below = [_measured(part, known) for part in inputs_of(node)]
        height = max((high + 1 for high, _ in below), default=0)
        known[id(node)] = height, 1 + sum(count for _, count in below)
    return known[id(node)]
