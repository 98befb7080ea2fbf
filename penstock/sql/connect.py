"""From CREATE SOURCE and the options of a sink to connectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import pyarrow as pa

from penstock.config import span, yes_or_no
from penstock.errors import ConfigError, QueryError
from penstock.plan.nodes import Connector, Source
from penstock.progress.allowed import allowing
from penstock.schema import normalise
from penstock.sql.place import ScriptText
from penstock.sql.statements import CreateSink, CreateSource
from penstock.sql.watermark import HOW, time_and_rule


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
    kind, options = _kind(statement.options, statement.offset, text)
    idle = _idle(options.pop("idle", None), statement.offset, text)
    advances = options.pop("idle_advances", "false")
    lateness = options.pop("allowed_lateness", None)
    declared = None if statement.schema is None else normalise(statement.schema)
    with text.placing(lambda: statement.offset):
        connector = connectors.source(kind, options, declared)
        schema = normalise(connector.discover()) if declared is None else declared
    time, rule = time_and_rule(statement.watermark, schema, text, statement.name)
    with text.placing(lambda: statement.offset):
        rule = allowing(rule, lateness, pa.types.is_timestamp(schema.field(time).type))
        return Source(statement.name, schema, time, rule, connector, idle, _flag("idle_advances", advances))


def _idle(told: str | None, offset: int, text: ScriptText) -> int | None:
    """After how many microseconds without rows the source counts as idle."""
    if told is None:
        return None
    with text.placing(lambda: offset):
        if (microseconds := span(told)) <= 0:
            raise QueryError("the time after which a source is idle must be above zero", hint="as in idle = '10s'")
    return microseconds


def _flag(name: str, told: str) -> bool:
    try:
        return yes_or_no(told)
    except ConfigError as error:
        raise QueryError(f"`{name}` cannot be `{told}`", detail=error.what, hint=error.hint) from error


def sink_connector(statement: CreateSink, connectors: Connectors, text: ScriptText) -> Connector:
    """The connector a sink writes to."""
    kind, options = _kind(statement.options, statement.offset, text)
    with text.placing(lambda: statement.offset):
        return connectors.sink(kind, options)


def _kind(options: Mapping[str, str], offset: int, text: ScriptText) -> tuple[str, dict[str, str]]:
    """The kind of connector, and the other options."""
    if "connector" not in options:
        raise text.error("WITH does not say which connector", offset, hint="add connector = 'files' or another kind")
    return options["connector"], {key: value for key, value in options.items() if key != "connector"}
