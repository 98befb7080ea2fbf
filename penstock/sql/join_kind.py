"""JOIN as it is written: its kind, and the kinds that have no plan."""

from __future__ import annotations

from sqlglot import exp

from penstock.errors import QueryError
from penstock.sql.tree import extra_parts

_KINDS = {
    ("", ""): "inner", ("", "INNER"): "inner", ("", "CROSS"): "inner", ("LEFT", ""): "left", ("RIGHT", ""): "right",
    ("FULL", ""): "full", ("LEFT", "OUTER"): "left", ("RIGHT", "OUTER"): "right", ("FULL", "OUTER"): "full",
    ("", "SEMI"): "semi", ("LEFT", "SEMI"): "semi", ("", "ANTI"): "anti", ("LEFT", "ANTI"): "anti",
}  # fmt: skip
_KNOWN = "there are inner, LEFT, RIGHT, FULL, SEMI and ANTI joins, with ON or USING"


def kind_of(join: exp.Join) -> str:
    """Which of the plan's kinds of join this is."""
    written = join.text("side").upper(), join.text("kind").upper()
    if (method := join.text("method")) or written not in _KINDS:
        name = " ".join(filter(None, (method.upper(), *written)))
        raise QueryError(f"{name} joins are not supported", hint=_KNOWN)
    if any(extra_parts(join, ("this", "side", "kind", "method", "on", "using"))):
        raise QueryError("this kind of join is not supported", hint=_KNOWN)
    kind = _KINDS[written]
    if kind != "inner" and not (join.args.get("on") or join.args.get("using")):
        raise QueryError(f"a {kind} join needs ON or USING", hint="as in LEFT JOIN b ON a.k = b.k AND ...")
    return kind


def is_comma(join: exp.Join) -> bool:
    """Whether the item stands behind a comma, or behind a JOIN that says as little."""
    return not any(extra_parts(join, ("this",)))
