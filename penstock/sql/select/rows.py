"""The input of a SELECT: the rows of FROM and WHERE, the window over them, and their scope."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from penstock.errors import QueryError
from penstock.expr.tree import Column, Expr
from penstock.expr.walk import all_of, conjuncts_of
from penstock.operators.window.kinds import RowWindow, Session
from penstock.operators.window.windows import Window
from penstock.plan.logical import Filter, Node
from penstock.plan.lost_time import why_no_time
from penstock.plan.schema import WINDOW_COLUMNS, columns_of_node, times_of
from penstock.sql.joins.plan import unit_of
from penstock.sql.joins.tree import From, Leaf
from penstock.sql.names.expression import translate
from penstock.sql.names.scope import NamedRelation, Scope, stream_scope
from penstock.sql.parse.query_parser import BRACKET, ROWS
from penstock.sql.parse.tree import placing, without_parentheses
from penstock.sql.select.from_reader import read_from
from penstock.sql.select.windowed import windowed
from penstock.sql.streams.ranked import Ranked, bounded, require_time
from penstock.sql.streams.stream import Context, FromStream, unbounded
from penstock.sql.streams.window_call import may_have_gaps, progressing, row_count, span_of, warn_of_gaps

_LATER = "WHERE filters rows before they are assigned to windows; filter windows with HAVING"
_NO_AGGREGATE = "WHERE filters rows; filter by an aggregate in HAVING"


@dataclass(frozen=True)
class SelectInput:
    """The input of a SELECT. `window` is not applied to `node` yet.

    `implied`: GROUP BY need not name the window. `partition` are the PARTITION BY columns of a session, None without
    one.
    """

    node: Node
    scope: Scope
    window: Window | Session | RowWindow | None = None
    implied: bool = False
    partition: tuple[str, ...] | None = None


def rows_of(select: exp.Select, context: Context, is_grouped: bool) -> SelectInput:
    """Return the input of a SELECT; if it does not group, the rows are already assigned to their windows."""
    bracket = _pop_bracket(select)
    read = read_from(select, context)
    where = select.args.get("where")
    rows = _single(read.tree, where, context, is_grouped) if isinstance(read.tree, Leaf) else _joined(read, where)
    if bracket is None:
        return rows
    with placing(bracket, context.text):
        rows = _with_bracket(rows, bracket)
        return rows if is_grouped else _in_windows(rows)


def _pop_bracket(select: exp.Select) -> exp.Anonymous | None:
    """Remove the window after the select list from the select list and return it; None if there is none."""
    last = select.expressions[-1] if select.expressions else None
    if not isinstance(last, exp.Anonymous) or last.name not in (BRACKET, ROWS):
        return None
    select.set("expressions", select.expressions[:-1])
    return last


def _single(leaf: Leaf, where: exp.Expr | None, context: Context, is_grouped: bool) -> SelectInput:
    """Return the rows of one stream. WHERE is applied after windowing only if it reads window columns."""
    stream = leaf.stream
    rows = SelectInput(stream.node, _scope(stream, context), stream.window, stream.implied, stream.partition)
    if stream.ranked is not None:
        return _first_rows(rows, stream.ranked, where, leaf.offset)
    if is_grouped or where is None or not _reads_borders(where):
        rows = _filtered(rows, where)
        return rows if is_grouped else _in_windows(rows)
    return _filtered(_in_windows(rows), where)


def _scope(stream: FromStream, context: Context) -> Scope:
    """Return the scope of a stream; window_start and window_end of its window hide columns of those names."""
    hidden = WINDOW_COLUMNS if stream.window is not None else ()
    shown = [name for name in columns_of_node(stream.node) if name.lower() not in hidden]
    return stream_scope(context.text, stream.name, shown)


def _reads_borders(where: exp.Expr) -> bool:
    return any(column.name.lower() in WINDOW_COLUMNS for column in where.find_all(exp.Column))


def _filtered(rows: SelectInput, where: exp.Expr | None) -> SelectInput:
    if where is None:
        return rows
    return replace(rows, node=Filter(rows.node, _condition(where, rows.scope, rows.window is not None)))


def _condition(where: exp.Expr, scope: Scope, is_windowed: bool) -> Expr:
    later = dict.fromkeys(WINDOW_COLUMNS, _LATER) if is_windowed else {}
    return translate(where.this, replace(scope, elsewhere=later, why_no_aggregate=_NO_AGGREGATE))


def _first_rows(rows: SelectInput, ranked: Ranked, where: exp.Expr | None, offset: int) -> SelectInput:
    """Return the first rows of a ROW_NUMBER() subquery, bounded by WHERE; its other conditions filter the result."""
    with rows.scope.text.placing(lambda: offset):
        conjuncts = conjuncts_of(_condition(where, rows.scope, False)) if where is not None else ()
        found = bounded(conjuncts, Column(ranked.column))
        if found is None:
            raise unbounded(ranked)
        require_time(ranked)
        node, rest = ranked.first(found[0]), all_of(found[1])
        return replace(rows, node=node if rest is None else Filter(node, rest))


def _joined(read: From, where: exp.Expr | None) -> SelectInput:
    conjuncts = conjuncts_of(_condition(where, read.scope, False)) if where is not None else ()
    return SelectInput(unit_of(read.tree, conjuncts, read.scope.text).node, read.scope)


def _in_windows(rows: SelectInput) -> SelectInput:
    """Return each row once for every window it belongs to, with window_start and window_end as columns."""
    match rows.window:
        case None:
            return rows
        case Window() as window:
            node = windowed(rows.node, window)
            renamed = dict(zip(columns_of_node(rows.node), columns_of_node(node), strict=False))
            return replace(rows, node=node, scope=_with_borders(rows.scope, renamed), window=None)
    kind = "session" if isinstance(rows.window, Session) else "row"
    raise QueryError(f"a {kind} window needs an aggregate", hint="as in SELECT count(*) ... GROUP BY ...")


def _with_borders(scope: Scope, renamed: Mapping[str, str]) -> Scope:
    """Return the scope with the window columns added; `renamed` maps old to new names of the rows."""
    borders = {name: name for name in WINDOW_COLUMNS}
    if len(scope.parts) == 1:
        columns = {name: name for name in renamed.values()}
        return replace(scope, parts=(NamedRelation(scope.parts[0].name, {**columns, **borders}),))
    parts = [NamedRelation(p.name, {own: renamed[row] for own, row in p.columns.items()}) for p in scope.parts]
    return replace(scope, parts=(*parts, NamedRelation("", borders)))


def _with_bracket(rows: SelectInput, bracket: exp.Anonymous) -> SelectInput:
    """Return the rows with the window that follows the select list."""
    if rows.window is not None:
        raise QueryError("the query has two windows", hint="write one, in FROM or after the select list")
    text = rows.scope.text
    if bracket.name == ROWS:
        slide, size = (row_count(node, text) for node in bracket.expressions)
        return replace(rows, window=RowWindow(size, slide), implied=True)
    time, *spans, gaps = bracket.expressions
    slide, size = (span_of(node, rows.node, text) for node in spans)
    window = Window(_bracket_time(time, rows), size, slide)
    if not may_have_gaps(gaps):
        warn_of_gaps(window, (spans[1], spans[0]), text)
    return replace(rows, window=window, implied=True)


def _bracket_time(node: exp.Expr, rows: SelectInput) -> str:
    """Return the time column after WA, or the default one."""
    column = translate(without_parentheses(node), rows.scope)
    if isinstance(column, Column):
        return progressing(column.name, rows.node, "")
    times = times_of(rows.node)
    if not times:
        detail, hint = why_no_time(rows.node)
        raise QueryError("the rows have no time column for a window", detail=detail, hint=hint)
    return times[0]
