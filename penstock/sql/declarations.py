"""Turn CREATE SOURCE and CREATE SINK, with their options, into plan nodes and connectors.

A sink can ask for its rows in time order: all rows, or only rows with equal values of some columns, as in `in_order_by
= 'district, kind'`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import pyarrow as pa
from sqlglot import exp

from penstock.errors import QueryError, did_you_mean
from penstock.expr.evaluate.scalar import check_predicate
from penstock.plan.compile.subqueries import node_schema
from penstock.plan.logical import Connector, InOrder, Node, Sink, Source
from penstock.plan.lost_time import why_no_time
from penstock.plan.schema import columns_of_node, times_of
from penstock.progress.allowed import allowing
from penstock.progress.idle import idle_timeout
from penstock.progress.mark import Ordered, Punctuated, Rule, Slack
from penstock.sql.names.expression import translate
from penstock.sql.names.scope import spelled, stream_scope
from penstock.sql.parse.literals import interval_of
from penstock.sql.parse.options import Options, flag
from penstock.sql.parse.place import ScriptText
from penstock.sql.parse.script_parser import HOW_WATERMARK, PunctuationClause
from penstock.sql.parse.statements import CreateSink, CreateSource
from penstock.sql.parse.tree import placing
from penstock.type_names import sql_type
from penstock.types import is_time_type, normalise, require_column
from penstock.units import microseconds, span

SOURCE_OPTIONS = ("idle", "idle_advances", "allowed_lateness")  # options of every source, for any connector
_ALL, _BY = "in_order", "in_order_by"
ORDER_OPTIONS = (_ALL, _BY)


class Connectors(Protocol):
    """Makes connectors from the options of WITH. Unknown kinds and options are errors that name the nearest known
    one."""

    def source(self, kind: str, options: dict[str, str], schema: pa.Schema | None) -> Any:
        """Return a connector to read from; if `schema` is None, the connector also has `discover() -> pa.Schema`."""
        ...

    def sink(self, kind: str, options: dict[str, str]) -> Connector: ...


def source_node(statement: CreateSource, connectors: Connectors, text: ScriptText) -> Source:
    """Return the source that the statement declares; its schema is discovered if the statement lists no columns."""
    if statement.watermark is None:
        raise text.error(f"source `{statement.name}` has no WATERMARK", statement.offset, hint=HOW_WATERMARK)
    kind, options = _kind(statement.options.values, statement.offset, text)
    idle, advances, lateness = (options.pop(name, None) for name in SOURCE_OPTIONS)
    declared = None if statement.schema is None else normalise(statement.schema)
    with text.placing(lambda: statement.offset):
        connector = connectors.source(kind, options, declared)
        schema = normalise(connector.discover()) if declared is None else declared
    time, rule = _time_and_rule(statement.watermark, schema, text, statement.name)
    with text.placing(lambda: statement.offset):
        rule = allowing(rule, lateness, pa.types.is_timestamp(schema.field(time).type))
        waits = None if idle is None else idle_timeout(span(idle), idle)
        advancing = advances is not None and flag("idle_advances", advances)
        return Source(statement.name, schema, time, rule, connector, waits, advancing)


def _time_and_rule(
    mark: exp.WatermarkColumnConstraint, schema: pa.Schema, text: ScriptText, source: str
) -> tuple[str, Rule]:
    """Return the time column, in the schema's spelling, and the rule that derives the watermark from the rows."""
    column = spelled(mark.name, schema.names) or mark.name
    with placing(mark, text):
        type_ = require_column(schema, column, f"source `{source}`").type
        if not is_time_type(type_):
            raise QueryError(
                f"column `{column}` of type {sql_type(type_)} cannot be a time column",
                hint="a time column is a TIMESTAMP or a BIGINT",
            )
        match mark.expression:
            case PunctuationClause():
                return column, _punctuated(mark.expression, schema, text, source)
            case exp.Identifier():
                return column, Ordered()
            case slack if pa.types.is_timestamp(type_):
                return column, Slack(_timestamp_slack(slack))
            case slack:
                return column, Slack(_number_slack(slack, column))


def _punctuated(clause: PunctuationClause, schema: pa.Schema, text: ScriptText, source: str) -> Punctuated:
    """Return the punctuation rule. Its condition reads as in a query."""
    with placing(clause, text):
        predicate = translate(clause.this, stream_scope(text, source, schema.names))
        check_predicate(schema, predicate)
    return Punctuated(predicate, bool(clause.args["keep"]))


def _timestamp_slack(slack: exp.Expr) -> int:
    match slack:
        case exp.Interval():
            behind = microseconds(interval_of(slack))
        case exp.Add():  # INTERVAL 1 DAY 6 HOURS
            return _timestamp_slack(slack.this) + _timestamp_slack(slack.expression)
        case _:
            raise QueryError("the slack of a TIMESTAMP is an INTERVAL", hint=HOW_WATERMARK)
    if behind < 0:
        raise QueryError("the slack of a watermark is below zero", hint=HOW_WATERMARK)
    return behind


def _number_slack(slack: exp.Expr, column: str) -> int:
    digits: str = slack.name
    if not isinstance(slack, exp.Literal) or slack.is_string or not digits.isdigit() or len(digits) > 18:
        raise QueryError(
            f"the slack of the BIGINT column `{column}` is a whole number",
            hint=f"write WATERMARK FOR {column} AS {column} - 5",
        )
    return int(digits)


def sink_node(statement: CreateSink, rows: Node, connectors: Connectors, text: ScriptText) -> Sink:
    """Return the sink that the statement declares, with `rows` as its input."""
    kind, options = _kind(statement.options.without(ORDER_OPTIONS).values, statement.offset, text)
    with text.placing(lambda: statement.offset):
        connector = connectors.sink(kind, options)
    return Sink(_rows_in_order(rows, statement.options, text), connector)


def _kind(options: Mapping[str, str], offset: int, text: ScriptText) -> tuple[str, dict[str, str]]:
    """Return the kind of connector, and the options without it."""
    if "connector" not in options:
        raise text.error("WITH names no connector", offset, hint="add connector = 'files' or another kind")
    return options["connector"], {key: value for key, value in options.items() if key != "connector"}


def _rows_in_order(node: Node, options: Options, text: ScriptText) -> Node:
    """Return `node` with its rows in the order that the sink asks for; unchanged if it asks for none."""
    if not _asks(options, text):
        return node
    place = options.places[_BY if _BY in options.values else _ALL]
    ordered = InOrder(node, _order_time(node, place, text), tuple(_order_columns(node, options, text)))
    with text.placing(lambda: place):
        node_schema(ordered)  # refuses columns whose type has no equality
    return ordered


def _asks(options: Options, text: ScriptText) -> bool:
    if _ALL not in options.values:
        return _BY in options.values
    with text.placing(lambda: options.places[_ALL]):
        asked = flag(_ALL, options.values[_ALL])
    if _BY in options.values and not asked:
        raise text.error(
            f"the sink has `{_BY}`, but `in_order` is false",
            options.places[_ALL],
            hint=f"leave one of `{_ALL}` and `{_BY}` out",
        )
    return asked


def _order_time(node: Node, place: int, text: ScriptText) -> str:
    times = times_of(node)
    if not times:
        detail, hint = why_no_time(node)
        what = "a sink in order needs a time column, and its rows have none"
        raise text.error(what, place, detail=detail, hint=hint)
    return times[0]


def _order_columns(node: Node, options: Options, text: ScriptText) -> Iterator[str]:
    """Yield the columns that `in_order_by` names, in the spelling of the rows."""
    if _BY not in options.values:
        return
    known = columns_of_node(node)
    for name in map(str.strip, options.values[_BY].split(",")):
        meant = spelled(name, known)
        if meant is None:
            what = f"unknown column `{name}` in `{_BY}`" if name else f"`{_BY}` lacks the name of a column"
            raise text.error(what, options.places[_BY], hint=did_you_mean(name, known))
        yield meant
