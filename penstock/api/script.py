"""SQL scripts over the registered connectors: parse text into queries that are ready to start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from penstock.api.connectors import sinks, sources
from penstock.api.run_options import read_run_options
from penstock.api.write import Ready
from penstock.connectors.sinks.terminal import TerminalSink
from penstock.connectors.source import SourceConnector
from penstock.errors import PenstockWarning, QueryError
from penstock.plan.logical import Connector, Sink
from penstock.sql import ORDER_OPTIONS, SOURCE_OPTIONS, Script, parse_script

_OF_THE_RUN = ("on_bad_row",)
_OF_SOURCES = (*SOURCE_OPTIONS, *_OF_THE_RUN)


@dataclass(frozen=True)
class NamedQuery:
    """A query of a script. `adhoc`: a bare SELECT, which declares no sink."""

    name: str
    ready: Ready
    adhoc: bool = False


@dataclass(frozen=True)
class SqlScript:
    """The queries of a script, and its settings as options of `start`."""

    queries: tuple[NamedQuery, ...]
    settings: Mapping[str, Any]
    warnings: tuple[PenstockWarning, ...] = ()


def read_script(text: str, name: str = "script") -> SqlScript:
    """Parse a script and return its queries: its sinks, then its bare SELECTs, which print to the terminal."""
    connectors = KnownConnectors()
    script = parse_script(text, connectors=connectors, name=name)
    queries = (*_sinks(script), *_selects(script))
    if not queries:
        raise QueryError(
            f"{name} has nothing to run",
            detail="it declares sources and views, but neither a sink nor a query",
            hint="add CREATE SINK name WITH (...) AS SELECT ..., or a SELECT, which prints to the terminal",
        )
    asked = {**connectors.run_options, **{key: str(value) for key, value in script.settings.items()}}
    return SqlScript(queries, read_run_options(asked), script.warnings)


def _sinks(script: Script) -> tuple[NamedQuery, ...]:
    return tuple(NamedQuery(named.name, Ready(named.sink)) for named in script.sinks)


def _selects(script: Script) -> tuple[NamedQuery, ...]:
    return tuple(NamedQuery(name, Ready(Sink(node, TerminalSink())), adhoc=True) for name, node in script.queries)


@dataclass(frozen=True)
class KnownConnectors:
    """The connectors that SQL can name: those of the registry. `run_options` collects settings of the run that are
    written in the options of a source; they apply to all sources of the script."""

    run_options: dict[str, str] = field(default_factory=dict)

    def source(self, kind: str, options: dict[str, str], schema: pa.Schema | None) -> SourceConnector:
        """Create a source connector from its options in SQL."""
        self.run_options.update({key: options[key] for key in _OF_THE_RUN if key in options})
        options = {key: value for key, value in options.items() if key not in _OF_THE_RUN}
        return sources.parse(kind, options, _OF_SOURCES)

    def sink(self, kind: str, options: dict[str, str]) -> Connector:
        """Create a sink connector from its options in SQL."""
        return sinks.parse(kind, options, ORDER_OPTIONS)
