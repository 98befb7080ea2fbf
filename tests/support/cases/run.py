"""Run a case in this process and collect its output epoch by epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.api.handle import Run
from penstock.api.run_options import read_run_options
from penstock.api.write import Ready
from penstock.connectors.sinks.sink import CollectedSink
from penstock.connectors.source import BAD_ROWS_SCHEMA
from penstock.errors import PenstockError
from penstock.events import EpochCommitted
from penstock.plan.compile.subqueries import node_schema
from penstock.plan.logical import Node, Sink, Source, inputs_of
from penstock.sql import Script, parse_script
from penstock.storage.durable import epoch_of_name
from penstock.testing.ways import Way
from tests.support.cases.input import Epochs
from tests.support.cases.source import CaseConnectors
from tests.support.cases.text import Case, CaseError


@dataclass(frozen=True)
class EpochResult:
    """The rows that one epoch published. `mark` is the low-water mark after it, None at the end of the stream."""

    number: int
    mark: int | None
    rows: pa.Table
    late: pa.Table
    bad: pa.Table


@dataclass(frozen=True)
class Outcome:
    """The outcome of a case: its plan and epochs, or the error that ended it, with the plan if there is one."""

    node: Node | None = None
    plan: str = ""
    epochs: tuple[EpochResult, ...] = ()
    error: PenstockError | None = None
    lateness: str = "window"

    @property
    def sources(self) -> tuple[Source, ...]:
        """Return the different sources of the query."""
        if self.node is None:
            raise CaseError("the query was refused, so it has no sources")
        return tuple({source.name: source for source in sources_of(self.node)}.values())

    @property
    def written_epochs(self) -> int:
        """Return the number of epochs of the input."""
        return max(len(input_of(source)) for source in self.sources)

    def union(self, output: Callable[[EpochResult], pa.Table]) -> pa.Table:
        """Return one of the outputs over all epochs."""
        return together([output(epoch) for epoch in self.epochs])


def sources_of(node: Node) -> Iterator[Source]:
    """Yield the sources below a node."""
    if isinstance(node, Source):
        yield node
    for below in inputs_of(node):
        yield from sources_of(below)


def input_of(source: Source) -> Epochs:
    """Return the epochs of a source of a case."""
    epochs: Epochs = source.connector.epochs  # type: ignore[attr-defined]
    return epochs


def together(tables: Sequence[pa.Table]) -> pa.Table:
    """Concatenate tables, also of different sources; a column that a table lacks is null."""
    return pa.concat_tables(tables, promote_options="permissive")


def run_case(case: Case, folder: Path, way: Way | None = None, random: Random | None = None) -> Outcome:
    """Run a case with the epochs as written: with default settings, or in the given way and with smaller splits."""
    node, plan = None, ""
    results = _Results()
    try:
        script = parse_script(case.query, connectors=CaseConnectors(case.inputs, random), name="query")
        node = _only_query(script)
        ready = Ready(Sink(node, CollectedSink("case", results.deliver)))
        plan = ready.explain()
        run = ready.start(str(folder), **_options(script, way)).wait()
    except CaseError:
        raise
    except PenstockError as error:
        return Outcome(node, plan, error=error)
    lateness = str(script.settings.get("lateness", "window"))
    return Outcome(node, plan, _epochs(run, node, results.tables), lateness=lateness)


@dataclass
class _Results:
    """Collects the results by epoch."""

    tables: dict[int, pa.Table] = field(default_factory=dict)

    def deliver(self, epoch: int, rows: pa.Table) -> None:
        self.tables[epoch] = rows


def _only_query(script: Script) -> Node:
    if len(script.queries) != 1:
        raise CaseError("a case has one SELECT")
    return script.queries[0][1]


def _options(script: Script, way: Way | None) -> dict[str, Any]:
    asked = read_run_options({key: str(value) for key, value in script.settings.items()})
    chosen = {} if way is None else way.settings()
    return {"master": "inline", "epoch": "1ms", "on_bad_row": "divert"} | asked | chosen


def _epochs(run: Run, node: Node, results: dict[int, pa.Table]) -> tuple[EpochResult, ...]:
    late, bad = _by_epoch(run.folder("late").rglob("*.parquet")), _by_epoch(run.folder("bad").glob("*.parquet"))
    nothing = node_schema(node).empty_table()
    none_late = together([run.late_of(source.name).slice(0, 0) for source in Outcome(node).sources])
    return tuple(
        EpochResult(
            event.epoch,
            event.low_water_mark,
            results.get(event.epoch, nothing),
            together([none_late, late.get(event.epoch, none_late)]),
            bad.get(event.epoch, BAD_ROWS_SCHEMA.empty_table()),
        )
        for event in run.events
        if isinstance(event, EpochCommitted)
    )


def _by_epoch(files: Iterable[Path]) -> dict[int, pa.Table]:
    tables: dict[int, list[pa.Table]] = {}
    for path in sorted(files):
        tables.setdefault(epoch_of_name(path.name) or 0, []).append(pq.read_table(path))
    return {epoch: together(parts) for epoch, parts in tables.items()}
