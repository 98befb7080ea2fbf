"""Where rows go: `.to.files(...)`, `.to.memory()`, `.to.callback(...)`, `.to.terminal()`, and then `.start(...)`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.api.handle import Run
from penstock.api.launch import settings_from, start
from penstock.api.nodes import checked, in_order_node
from penstock.connectors.sinks.collected import CollectedSink, MemoryResults
from penstock.connectors.sinks.files import FilesSink
from penstock.connectors.sinks.terminal import TerminalSink
from penstock.plan.compile.subqueries import compile_query, node_schema
from penstock.plan.explain.plan import explain
from penstock.plan.logical import Node, Sink
from penstock.plan.options import CompileOptions


@dataclass(frozen=True)
class Destinations:
    """Where rows go. `in_order=True` holds them back and lets them through in order of time; `in_order_by`, a column or
    several, does so for rows with equal values of these, and then not all have to pass through one site."""

    node: Node

    def files(
        self,
        path: str,
        compression: str = "lz4",
        format: str = "parquet",
        *,
        in_order: bool = False,
        in_order_by: str | Sequence[str] = (),
    ) -> Ready:
        """A folder of files, each row exactly once: Parquet with the compression `lz4`, `snappy`, `zstd` or `none`, or
        with the format `arrow` Arrow IPC files, which are larger and written in half the time."""
        rows = self._rows(in_order, in_order_by)
        return Ready(Sink(rows, FilesSink(str(path), format=format, compression=compression)))

    def memory(self, *, in_order: bool = False, in_order_by: str | Sequence[str] = ()) -> Ready:
        """In this process: `run.result()` gives an Arrow table, `run.pandas()` a data frame."""
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
        """`function(epoch, rows)` per epoch that has results; at least once across restarts."""
        return Ready(Sink(self._rows(in_order, in_order_by), CollectedSink("callback", function)))

    def terminal(self, rows: int = 20, *, in_order: bool = False, in_order_by: str | Sequence[str] = ()) -> Ready:
        """Printed as they come, at most `rows` of an epoch."""
        return Ready(Sink(self._rows(in_order, in_order_by), TerminalSink(rows)))

    def _rows(self, in_order: bool, in_order_by: str | Sequence[str]) -> Node:
        """The rows in the order that a destination asks for."""
        return checked(in_order_node(self.node, in_order_by)) if in_order or in_order_by else self.node


@dataclass(frozen=True)
class Ready:
    """A query with its destination, ready to be started."""

    sink: Sink
    results: MemoryResults | None = None

    def explain(self, **options: Any) -> str:
        """The plan, as it is with some settings of a run: `order="in"` changes it, `sites` does not."""
        return explain(compile_query(self.sink, CompileOptions.of(settings_from(options))))

    def start(self, checkpoint: str | None = None, **options: Any) -> Run:
        """Start it; options are the settings of a run (`sites=2`, `master="local[2]"`, `epoch="2s"`, ...). While it is
        waited for on a terminal it shows how far it is, unless `progress` is False."""
        return start(self.sink, checkpoint, options, self.results)
