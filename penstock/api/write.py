"""Sinks of a stream: `.to.files(...)`, `.to.memory()`, `.to.callback(...)`, `.to.terminal()`; then `.start(...)`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import pyarrow as pa

from penstock.api.connectors import sinks
from penstock.api.handle import Run
from penstock.api.launch import settings_from, start
from penstock.api.nodes import checked, in_order_node
from penstock.api.run_options import RunOptions, SettingOptions
from penstock.arrow import Compression, ResultFormat
from penstock.connectors.sinks.files import FilesSink
from penstock.connectors.sinks.sink import CollectedSink, MemoryResults, SinkConnector
from penstock.connectors.sinks.terminal import TerminalSink
from penstock.errors import ConfigError
from penstock.plan.compile.subqueries import compile_query, node_schema
from penstock.plan.explain.plan import explain
from penstock.plan.logical import Node, Sink
from penstock.plan.options import CompileOptions


@dataclass(frozen=True)
class Destinations:
    """The sinks of a stream. `in_order=True` holds rows back and outputs them in order of time; `in_order_by`, one
    column or several, orders only rows with equal values of these columns, so that not all rows have to pass through
    one site."""

    node: Node

    def files(
        self,
        path: str,
        compression: Compression = "lz4",
        format: ResultFormat = "parquet",
        *,
        in_order: bool = False,
        in_order_by: str | Sequence[str] = (),
    ) -> Ready:
        """Write the rows to files in a folder, each row exactly once. `format` is `parquet`, with `compression` `lz4`,
        `snappy`, `zstd` or `none`, or `arrow` (Arrow IPC), which gives larger files in half the time."""
        rows = self._rows(in_order, in_order_by)
        return Ready(Sink(rows, FilesSink(str(path), format=format, compression=compression)))

    def memory(self, *, in_order: bool = False, in_order_by: str | Sequence[str] = ()) -> Ready:
        """Keep the rows in this process: `run.result()` returns an Arrow table, `run.pandas()` a data frame."""
        results = MemoryResults(node_schema(self.node))
        rows = self._rows(in_order, in_order_by)
        return Ready(Sink(rows, CollectedSink("memory", results.deliver)), results)

    def callback(
        self,
        function: Callable[[int, pa.Table], None],
        *,
        in_order: bool = False,
        in_order_by: str | Sequence[str] = (),
    ) -> Ready:
        """Call `function(epoch, rows)` for each epoch with results; at least once across restarts."""
        return Ready(Sink(self._rows(in_order, in_order_by), CollectedSink("callback", function)))

    def terminal(self, rows: int = 20, *, in_order: bool = False, in_order_by: str | Sequence[str] = ()) -> Ready:
        """Print the rows of each epoch, at most `rows` of them."""
        return Ready(Sink(self._rows(in_order, in_order_by), TerminalSink(rows)))

    def sink(
        self,
        connector: SinkConnector | str,
        *,
        in_order: bool = False,
        in_order_by: str | Sequence[str] = (),
        **options: Any,
    ) -> Ready:
        """Write the rows to any sink, or to one that is registered under a name, with its options."""
        if not isinstance(connector, str) and options:
            what = "`.to.sink` takes options only with the name of a connector"
            raise ConfigError(what, detail=", ".join(options), hint="give them to the connector")
        made = sinks.build(connector, options) if isinstance(connector, str) else connector
        return Ready(Sink(self._rows(in_order, in_order_by), made))

    def _rows(self, in_order: bool, in_order_by: str | Sequence[str]) -> Node:
        """Return the rows in the order that was asked for."""
        return checked(in_order_node(self.node, in_order_by)) if in_order or in_order_by else self.node


@dataclass(frozen=True)
class Ready:
    """A query with its sink, ready to start."""

    sink: Sink
    results: MemoryResults | None = None

    def explain(self, **options: Unpack[SettingOptions]) -> str:
        """Return the plan as text, for these settings of a run: `order="in"` changes it, `sites` does not."""
        return explain(compile_query(self.sink, CompileOptions.of(settings_from(dict(options)))))

    def start(self, checkpoint: str | Path | None = None, **options: Unpack[RunOptions]) -> Run:
        """Start the query and return its handle. `options` are the settings of a run (`sites=2`,
        `master="local[2]"`, `epoch="2s"`, ...). Progress is shown on a terminal while a script waits for the run,
        unless `progress=False`."""
        return start(self.sink, checkpoint, dict(options), self.results)
