"""Ad-hoc queries: a bare SELECT keeps nothing, can be run again, and shows its rows as a table.

Over input that is at rest it runs in this process, and its rows are one table at the end. Over input that goes on, its
rows are shown epoch by epoch, as they come.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from rich.console import Console

from penstock.api.script import NamedQuery
from penstock.api.write import Ready
from penstock.cli.target import Target
from penstock.connectors.sinks.collected import CollectedSink
from penstock.connectors.sinks.terminal import TerminalSink, rows_as_table
from penstock.plan.compile.subqueries import node_schema
from penstock.plan.logical import Node, Source, inputs_of
from penstock.settings import INLINE, default_master, named_master

_KEPT = 100_000  # rows; of a larger result the first ones are shown, in no order
_PIPED_WIDTH = 10_000  # what is piped has no width of its own to be cut to


@dataclass
class ResultRows:
    """The rows of a result, as they are handed over. Invariant: `tables` holds the first rows, at least `_KEPT` of them
    where there are so many; `count` is that of all rows."""

    schema: pa.Schema
    tables: list[pa.Table] = field(default_factory=list)
    count: int = 0

    def deliver(self, epoch: int, rows: pa.Table) -> None:
        if self.count < _KEPT:
            self.tables.append(rows)
        self.count += rows.num_rows

    def first(self, most: int) -> pa.Table:
        """The first rows by the columns from left to right, where all rows are kept and can be ordered."""
        rows = pa.concat_tables([self.schema.empty_table(), *self.tables])
        keys = [(f.name, "ascending") for f in self.schema if not pa.types.is_nested(f.type)]
        whole = self.count == rows.num_rows and keys
        return (rows.sort_by(keys) if whole else rows).slice(0, most)

    def print(self, most: int) -> None:
        """Print the first rows on stdout."""
        shown = self.first(most)
        console = Console(highlight=False) if sys.stdout.isatty() else Console(width=_PIPED_WIDTH, highlight=False)
        console.print(rows_as_table(shown, None, most))
        if self.count > shown.num_rows:
            console.print(f"the first {shown.num_rows:,} of {self.count:,} rows; --rows N shows more")


@dataclass(frozen=True)
class AdHoc:
    """A target whose ad-hoc queries over input at rest deliver to `results`, one for each of them."""

    target: Target
    results: tuple[ResultRows, ...]


def collecting(target: Target, rows: int) -> AdHoc:
    """Let ad-hoc queries collect their rows, or show up to `rows` rows of each epoch where their input goes on."""
    results: list[ResultRows] = []
    queries = tuple(_delivering(query, rows, results) for query in target.queries)
    return AdHoc(replace(target, queries=queries), tuple(results))


def _delivering(query: NamedQuery, rows: int, results: list[ResultRows]) -> NamedQuery:
    if not query.adhoc:
        return query
    node = query.ready.sink.input
    if not at_rest(node):
        return replace(query, ready=Ready(replace(query.ready.sink, connector=TerminalSink(rows))))
    results.append(ResultRows(node_schema(node)))
    sink = CollectedSink("terminal", results[-1].deliver)
    return replace(query, ready=Ready(replace(query.ready.sink, connector=sink)))


def master_of(target: Target, options: Mapping[str, Any]) -> str:
    """The master to run on: the one that is asked for; otherwise Spark, or for ad-hoc queries over input at rest this
    process."""
    asked = options.get("master") or named_master()
    quick = all(query.adhoc and at_rest(query.ready.sink.input) for query in target.queries)
    return asked or (INLINE if quick else default_master())


def at_rest(node: Node) -> bool:
    """Whether all rows are there already: no source goes on for ever, or at the pace of the clock."""
    return all(
        getattr(source.connector, "bounded", False) and not getattr(source.connector, "realtime", False)
        for source in _sources(node)
    )


def _sources(node: Node) -> Iterator[Source]:
    left, seen = [node], set[int]()
    while left:
        node = left.pop()
        if id(node) not in seen:  # a view that is read twice is one node
            seen.add(id(node))
            left.extend(inputs_of(node))
            if isinstance(node, Source):
                yield node
