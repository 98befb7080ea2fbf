"""Streams: queries under construction. Every method gives a new stream; nothing runs before `start`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.api.aggregates import AggregateSpec
from penstock.api.columns import as_column, as_expr
from penstock.api.handle import Run
from penstock.api.launch import start
from penstock.api.windows import WindowSpec
from penstock.errors import QueryError
from penstock.expressions import Column, Named
from penstock.plan.columns import WINDOW_START, time_column
from penstock.plan.explain import explain
from penstock.plan.naming import default_name
from penstock.plan.nodes import Aggregate, Filter, Node, Project, Sink
from penstock.plan.subqueries import compile_query, node_schema
from penstock.sinks.collected import CollectedSink, MemoryResults
from penstock.sinks.files import FilesSink
from penstock.sinks.terminal import TerminalSink


@dataclass(frozen=True)
class Stream:
    """A stream of rows. `wide` is what `select` may choose from, where that is more than the stream shows."""

    node: Node
    wide: Node | None = None

    @property
    def schema(self) -> pa.Schema:
        return node_schema(self.node)

    def where(self, condition: object) -> Stream:
        """The rows for which the condition holds. Right behind an aggregate it is what HAVING is in SQL, and may also
        use `window_end`."""
        predicate = as_column(condition)
        match self.node:
            case Project(columns=shown) if self.wide is not None:
                wide = Filter(self.wide, predicate)
                return Stream(Project(wide, shown), wide=wide)
        return Stream(Filter(self.node, predicate))

    def select(self, *columns: object, **computed: object) -> Stream:
        """Some columns, by name or as expressions; computed ones get their keyword as a name."""
        plain = [Named(default_name(as_column(c)), as_column(c)) for c in columns]
        named = [Named(name, as_expr(value)) for name, value in computed.items()]
        return self._checked(Project(self.wide or self.node, (*plain, *named)))

    def with_columns(self, **computed: object) -> Stream:
        """All columns, and more; one with a known name replaces it."""
        kept = [Named(n, Column(n)) for n in self.schema.names if n not in computed]
        return self.select(*[n.expression for n in kept], **computed)

    def group_by(self, *keys: object, **computed: object) -> Grouped:
        """Groups by columns or expressions; without keys, all rows are one group."""
        plain = [Named(default_name(as_column(k)), as_column(k)) for k in keys]
        named = [Named(name, as_expr(value)) for name, value in computed.items()]
        return Grouped(self.node, (*plain, *named))

    def window(self, window: WindowSpec) -> Windowed:
        """Windows over all rows as one group."""
        return self.group_by().window(window)

    @property
    def to(self) -> Destinations:
        """Where the rows go: `.to.files(...)`, `.to.memory()`, `.to.callback(...)`, `.to.terminal()`."""
        return Destinations(self.node)

    def explain(self) -> str:
        return self.to.memory().explain()

    def _checked(self, node: Node) -> Stream:
        node_schema(node)
        return Stream(node)


@dataclass(frozen=True)
class Grouped:
    node: Node
    keys: tuple[Named, ...]

    def window(self, window: WindowSpec) -> Windowed:
        """Windows over the stream's time: `tumbling("10s")`, `sliding("1m", every="10s")`."""
        time = time_column(self.node)
        if time is None:
            raise QueryError(
                "a window needs the time of the stream, and an earlier select dropped it",
                hint="keep the time column in that select",
            )
        return Windowed(self.node, self.keys, window, time)

    def agg(self, **aggregates: AggregateSpec) -> Stream:
        raise QueryError(
            "a continuous aggregate needs a window: without one its result would never be complete",
            hint='write .group_by(...).window(ps.tumbling("10s")).agg(...)',
        )


@dataclass(frozen=True)
class Windowed:
    node: Node
    keys: tuple[Named, ...]
    spec: WindowSpec
    time: str

    def agg(self, **aggregates: AggregateSpec) -> Stream:
        """One row per group and window: the keys, `window_start` and the aggregates; `window_end` can be selected."""
        for name, value in aggregates.items():
            if not isinstance(value, AggregateSpec):
                raise QueryError(f"`{name}` is not an aggregate", hint=f"write {name}=ps.count(), or another aggregate")
        named = tuple(value.named(name) for name, value in aggregates.items())
        node = Aggregate(self.node, self.keys, self.spec.over(self.time), named)
        shown = (*(k.name for k in self.keys), WINDOW_START, *aggregates)
        node_schema(node)
        return Stream(Project(node, tuple(Named(n, Column(n)) for n in shown)), wide=node)


@dataclass(frozen=True)
class Destinations:
    node: Node

    def files(self, path: str) -> Ready:
        """A folder of Parquet files, each row exactly once."""
        return Ready(Sink(self.node, FilesSink(str(path))))

    def memory(self) -> Ready:
        """In this process: `run.result()` gives an Arrow table, `run.pandas()` a data frame."""
        results = MemoryResults(node_schema(self.node))
        return Ready(Sink(self.node, CollectedSink("memory", results.deliver)), results)

    def callback(self, function: Callable[[int, pa.Table], None]) -> Ready:
        """`function(epoch, rows)` per epoch that has results; at least once across restarts."""
        return Ready(Sink(self.node, CollectedSink("callback", function)))

    def terminal(self, rows: int = 20) -> Ready:
        """Printed as they come, at most `rows` of an epoch."""
        return Ready(Sink(self.node, TerminalSink(rows)))


@dataclass(frozen=True)
class Ready:
    """A query with its destination, ready to be started."""

    sink: Sink
    results: MemoryResults | None = None

    def explain(self) -> str:
        return explain(compile_query(self.sink))

    def start(self, checkpoint: str | None = None, **options: Any) -> Run:
        """Start it; options are the settings of a run (`sites=2`, `master="local[2]"`, `epoch="2s"`, ...)."""
        return start(self.sink, checkpoint, options, self.results)
