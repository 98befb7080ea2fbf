"""The parts of SQL that are not there yet, each with what to do instead."""

from __future__ import annotations

from sqlglot import exp

from penstock.errors import QueryError
from penstock.sql.place import ScriptText
from penstock.sql.tree import extra_parts, offset_of, place_of

PLANNED = ("expressions", "from_", "where", "group", "having")
_ENDLESS = "a stream has no end, so there is no whole result to look at"

_CLAUSES: dict[str, tuple[str, str, str]] = {
    "joins": ("joins are not supported yet", "", "query one source at a time"),
    "laterals": ("LATERAL is not supported", "", "query one source at a time"),
    "distinct": ("SELECT DISTINCT is not supported yet", "", "group by the columns in a window, with count(*)"),
    "order": ("ORDER BY is not supported", _ENDLESS, "sort where the result is read"),
    "limit": ("LIMIT is not supported", _ENDLESS, "filter with WHERE or HAVING"),
    "offset": ("OFFSET is not supported", _ENDLESS, "filter with WHERE or HAVING"),
    "qualify": ("QUALIFY is not supported", "", "filter with WHERE or HAVING"),
    "windows": ("the WINDOW clause is not supported", "", "write the window in FROM, as TUMBLE(...) or HOP(...)"),
    "with_": ("WITH before a query is not supported yet", "", "write CREATE VIEW name AS SELECT ..."),
    "sample": ("sampling is not supported", "", "filter with WHERE, on a hash of a column"),
}


def check_clauses(select: exp.Select, text: ScriptText) -> None:
    """Refuse a SELECT with a clause that has no plan."""
    for item in select.expressions:
        if (over := item.find(exp.Window)) is not None:
            raise text.error("OVER is not supported yet", place_of(over), hint="use an aggregate over a window in FROM")
    for part in extra_parts(select, PLANNED):
        what, detail, hint = _CLAUSES.get(part, ("a clause of this query is not supported", f"it is `{part}`", ""))
        raise text.error(what, _place(select, part), detail=detail, hint=hint)


def _place(select: exp.Select, part: str) -> int:
    value = select.args[part]
    first = value[0] if isinstance(value, list) else value
    inside = offset_of(first) if isinstance(first, exp.Expr) else -1
    return inside if inside >= 0 else place_of(select)


def not_a_select(node: exp.Expr, text: ScriptText) -> QueryError:
    """The error for a statement or subquery that is not a SELECT."""
    if isinstance(node, exp.SetOperation):
        kind = type(node).__name__.upper()
        return text.error(f"{kind} is not supported yet", place_of(node), hint="write one query for each part")
    return text.error("a SELECT was expected here", place_of(node))
