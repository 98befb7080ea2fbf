"""From CREATE SOURCE and CREATE SINK, with their options, to nodes and connectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import pyarrow as pa

from penstock.errors import QueryError
from penstock.plan.logical import Connector, Node, Sink, Source
from penstock.progress.allowed import allowing
from penstock.settings import span
from penstock.sql.options import flag
from penstock.sql.place import ScriptText
from penstock.sql.sink_order import ORDER_OPTIONS, rows_in_order
from penstock.sql.statements import CreateSink, CreateSource
from penstock.sql.watermark import HOW, time_and_rule
from penstock.types import normalise

SOURCE_OPTIONS = ("idle", "idle_advances", "allowed_lateness")  # of every source, whatever its connector


class Connectors(Protocol):
    """Makes connectors from what WITH says. Unknown kinds and options are errors that name the nearest known one."""

    def source(self, kind: str, options: dict[str, str], schema: pa.Schema | None) -> Any:
        """A connector to read from; where `schema` is None it also has `discover() -> pa.Schema`."""
        ...

    def sink(self, kind: str, options: dict[str, str]) -> Connector: ...


def source_node(statement: CreateSource, connectors: Connectors, text: ScriptText) -> Source:
    """The source a statement declares."""
    if statement.watermark is None:
        raise text.error(f"source `{statement.name}` has no WATERMARK", statement.offset, hint=HOW)
    kind, options = _kind(statement.options.values, statement.offset, text)
    idle, advances, lateness = (options.pop(name, None) for name in SOURCE_OPTIONS)
    declared = None if statement.schema is None else normalise(statement.schema)
    with text.placing(lambda: statement.offset):
        connector = connectors.source(kind, options, declared)
        schema = normalise(connector.discover()) if declared is None else declared
    time, rule = time_and_rule(statement.watermark, schema, text, statement.name)
    with text.placing(lambda: statement.offset):
        rule = allowing(rule, lateness, pa.types.is_timestamp(schema.field(time).type))
        advancing = advances is not None and flag("idle_advances", advances)
        return Source(statement.name, schema, time, rule, connector, _idle(idle), advancing)


def _idle(told: str | None) -> int | None:
    """After how many microseconds without rows the source counts as idle."""
    if told is None:
        return None
    if (microseconds := span(told)) <= 0:
        raise QueryError("the time after which a source is idle must be above zero", hint="as in idle = '10s'")
    return microseconds


def sink_node(statement: CreateSink, rows: Node, connectors: Connectors, text: ScriptText) -> Sink:
    """The sink that a statement declares, of these rows."""
    kind, options = _kind(statement.options.without(ORDER_OPTIONS).values, statement.offset, text)
    with text.placing(lambda: statement.offset):
        connector = connectors.sink(kind, options)
    return Sink(rows_in_order(rows, statement.options, text), connector)


def _kind(options: Mapping[str, str], offset: int, text: ScriptText) -> tuple[str, dict[str, str]]:
    """The kind of connector, and the other options."""
    if "connector" not in options:
        raise text.error("WITH does not say which connector", offset, hint="add connector = 'files' or another kind")
    return options["connector"], {key: value for key, value in options.items() if key != "connector"}
