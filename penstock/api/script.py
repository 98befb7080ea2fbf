"""SQL scripts over the built-in connectors: parse text into queries that are ready to start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from penstock.api.run_options import read_run_options
from penstock.api.write import Ready
from penstock.connectors.files.source import FilesConnector
from penstock.connectors.generator.calls import CallsConnector
from penstock.connectors.sinks.files import FilesSink
from penstock.connectors.sinks.terminal import TerminalSink
from penstock.errors import ConfigError, PenstockWarning, QueryError, did_you_mean
from penstock.option_text import Reader, number, point_in_time, read_options, time_span, whole_number
from penstock.plan.logical import Connector, Sink
from penstock.settings import yes_or_no
from penstock.sql import ORDER_OPTIONS, SOURCE_OPTIONS, Script, parse_script

_FILES: dict[str, Reader] = {
    "path": str, "format": str.lower, "follow": yes_or_no, "split_rows": whole_number, "delimiter": str,
    "header": yes_or_no, "substreams": str.lower, "missing": str.lower,
}  # fmt: skip
_FILES_SINK: dict[str, Reader] = {"path": str, "format": str.lower, "compression": str.lower}
_CALLS: dict[str, Reader] = {
    "rows": whole_number, "rate": number, "realtime": yes_or_no, "keys": whole_number, "districts": whole_number,
    "skew": str, "disorder": time_span, "start": point_in_time, "seed": whole_number, "split_rows": whole_number,
}  # fmt: skip

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
    """The connectors that SQL can name. `run_options` collects settings of the run that are written in the options of a
    source; they apply to all sources of the script."""

    run_options: dict[str, str] = field(default_factory=dict)

    def source(self, kind: str, options: dict[str, str], schema: pa.Schema | None) -> FilesConnector | CallsConnector:
        """Create a source connector from its options in SQL."""
        self.run_options.update({key: options[key] for key in _OF_THE_RUN if key in options})
        options = {key: value for key, value in options.items() if key not in _OF_THE_RUN}
        match kind.lower():
            case "files":
                return FilesConnector(**{"path": "", **read_options(options, _FILES, "a files source", _OF_SOURCES)})
            case "calls":
                return CallsConnector(**read_options(options, _CALLS, "a calls source", _OF_SOURCES))
        raise ConfigError(f"unknown connector `{kind}` of a source", hint=did_you_mean(kind, ["files", "calls"]))

    def sink(self, kind: str, options: dict[str, str]) -> Connector:
        """Create a sink connector from its options in SQL."""
        match kind.lower():
            case "files":
                return FilesSink(**read_options(options, _FILES_SINK, "a files sink", ORDER_OPTIONS))
            case "terminal":
                return TerminalSink(**read_options(options, {"rows": whole_number}, "a terminal sink", ORDER_OPTIONS))
        raise ConfigError(f"unknown connector `{kind}` of a sink", hint=did_you_mean(kind, ["files", "terminal"]))
