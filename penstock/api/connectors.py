"""Connectors by name: registers those of Penstock, and those of users with `register_source` and `register_sink`."""

from __future__ import annotations

from collections.abc import Callable

from penstock.connectors.files.source import FilesConnector
from penstock.connectors.generator.calls import CallsConnector
from penstock.connectors.generator.joinable import JoinableConnector
from penstock.connectors.registry import ConnectorEntry, sinks, sources
from penstock.connectors.sinks.files import FilesSink
from penstock.connectors.sinks.sink import SinkConnector
from penstock.connectors.sinks.terminal import TerminalSink
from penstock.connectors.source import SourceConnector
from penstock.option_text import list_of, point_in_time, time_span, whole_number
from penstock.units import size

__all__ = ["register_sink", "register_source", "sinks", "sources"]

_OF_SINKS = ("kind", "extension")  # fields of a sink that are no options
sources.add(ConnectorEntry("files", FilesConnector, defaults={"path": ""}))
sources.add(ConnectorEntry("calls", CallsConnector, readers={"disorder": time_span, "start": point_in_time}))
sources.add(
    ConnectorEntry(
        "joinable",
        JoinableConnector,
        readers={
            "ratios": list_of(whole_number),
            "alternate": list_of(time_span),
            "payload": size,
            "disorder": time_span,
            "start": point_in_time,
        },
    )
)
sinks.add(ConnectorEntry("files", FilesSink, hidden=_OF_SINKS))
sinks.add(ConnectorEntry("terminal", TerminalSink, hidden=(*_OF_SINKS, "compression")))


def register_source(name: str, factory: Callable[..., SourceConnector]) -> None:
    """Register a source, so that `connector = 'name'` in SQL and `ps.read.source("name", ...)` read from it.

    `factory` is called with the options, as keywords, and returns the connector; a frozen dataclass is one. SQL gives
    options as text, which is parsed by the types of the keywords: int, float, bool, str or a Literal.
    """
    sources.register(name, factory)


def register_sink(name: str, factory: Callable[..., SinkConnector]) -> None:
    """Register a sink, so that `connector = 'name'` in SQL and `.to.sink("name", ...)` write to it. `factory` is as in
    `register_source`."""
    sinks.register(name, factory)
