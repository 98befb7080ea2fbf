"""How large a plan may get: views of views add up, and a view that is read twice counts twice."""

from __future__ import annotations

from penstock.plan.logical import Node
from penstock.plan.size import MAX_HEIGHT, MAX_NODES, measured
from penstock.sql.dialect import too_deep
from penstock.sql.place import ScriptText


def check_size(node: Node, text: ScriptText, offset: int) -> None:
    """Refuse a plan that is too high or too large to be walked."""
    height, count = measured(node)
    if height > MAX_HEIGHT:
        raise too_deep(text, offset)
    if count > MAX_NODES:
        what = f"the query has more than {MAX_NODES} operators"
        raise text.error(what, offset, detail="a view that is read twice counts twice", hint="read views less often")
