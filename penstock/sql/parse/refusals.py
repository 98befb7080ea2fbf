"""Refuse the clauses of SQL that have no plan, each with an alternative."""

from __future__ import annotations

from sqlglot import exp

from penstock.errors import QueryError
from penstock.sql.parse.place import ScriptText
from penstock.sql.parse.tree import extra_parts, offset_of, place_of

_PLANNED = ("expressions", "from_", "joins", "where", "group", "having", "distinct", "qualify", "with_")
_ENDLESS = "a stream is unbounded, so its result is never complete"
_IN_ORDER = "a sink WITH (in_order = true) gets its rows in order of time"
_TOP = "for the first rows of each group write QUALIFY ROW_NUMBER() OVER (PARTITION BY ... ORDER BY ...) <= n"

_CLAUSES: dict[str, tuple[str, str, str]] = {
    "laterals": ("LATERAL is not supported", "", "join the stream, or compute the columns in a view"),
    "order": ("ORDER BY is not supported", _ENDLESS, f"sort where the result is read; {_IN_ORDER}; {_TOP}"),
    "limit": ("LIMIT is not supported", _ENDLESS, f"filter with WHERE or HAVING; {_TOP}"),
    "offset": ("OFFSET is not supported", _ENDLESS, "filter with WHERE or HAVING"),
    "windows": ("the WINDOW clause is not supported", "", "write the window in FROM, as TUMBLE(...) or HOP(...)"),
    "sample": ("sampling is not supported", "", "filter with WHERE, on a hash of a column"),
}
_NO_SET_OPERATION = {
    exp.Except: ("EXCEPT is not supported", "write an ANTI JOIN with a bound on time"),
    exp.Intersect: ("INTERSECT is not supported", "write a SEMI JOIN with a bound on time"),
}
_IN_UNION = ("this", "expression", "distinct", "with_")


def check_set_operation(query: exp.SetOperation, text: ScriptText) -> None:
    """Refuse set operations other than UNION and UNION ALL by position."""
    if type(query) in _NO_SET_OPERATION:
        what, hint = _NO_SET_OPERATION[type(query)]
        raise text.error(what, place_of(query.expression), hint=hint)
    for part in extra_parts(query, _IN_UNION):
        what, detail, hint = _CLAUSES.get(part, ("UNION takes columns by position", "", "list them in the same order"))
        raise text.error(what, _place(query, part), detail=detail, hint=hint)


def check_clauses(select: exp.Select, text: ScriptText) -> None:
    """Refuse a SELECT with a clause that has no plan."""
    for part in extra_parts(select, _PLANNED):
        what, detail, hint = _CLAUSES.get(part, ("a clause of this query is not supported", f"it is `{part}`", ""))
        raise text.error(what, _place(select, part), detail=detail, hint=hint)


def check_distinct(clause: exp.Distinct) -> None:
    """Refuse DISTINCT ON."""
    if any(extra_parts(clause, ())):
        raise QueryError("DISTINCT ON is not supported", hint=_TOP)


def _place(select: exp.Expr, part: str) -> int:
    """Return the offset of a clause, or of the SELECT if the clause has none."""
    value = select.args[part]
    first = value[0] if isinstance(value, list) else value
    inside = offset_of(first) if isinstance(first, exp.Expr) else -1
    return inside if inside >= 0 else place_of(select)


def not_a_select(node: exp.Expr, text: ScriptText) -> QueryError:
    """Return the error for a statement or subquery that is not a SELECT."""
    return text.error("a SELECT was expected here", place_of(node), hint="write SELECT ... FROM ...")
