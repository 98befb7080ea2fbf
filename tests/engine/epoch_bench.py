"""What tests of progress share: small batches, and a query that is run epoch by epoch."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.api.streams import Stream
from penstock.checkpoint.store import Checkpoint
from penstock.clock import SYSTEM_CLOCK, Clock
from penstock.engine.driver.commit import source_marks
from penstock.engine.driver.executor import Executor, InlineExecutor
from penstock.engine.driver.loop import EpochLoop, Outcome
from penstock.engine.driver.recovery import recover
from penstock.plan.compile.subqueries import compile_query
from penstock.plan.options import CompileOptions
from penstock.progress.mark import Mark
from penstock.settings import Settings

SCHEMA = pa.schema([("ts", pa.int64()), ("kind", pa.string())])
Rows = list[tuple[int, str]]


def table(rows: Rows) -> pa.Table:
    return pa.table([[t for t, _ in rows], [k for _, k in rows]], schema=SCHEMA)


def times(*of_rows: int) -> pa.Table:
    return table([(t, "row") for t in of_rows])


NOTHING = times()


@dataclass
class Bench:
    """A query with its checkpoint, run epoch by epoch; `restart` goes on with a new driver."""

    stream: Stream
    folder: Path
    settings: dict[str, Any] = field(default_factory=dict)
    executor: Executor = field(default_factory=InlineExecutor)
    clock: Clock = SYSTEM_CLOCK

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        if hasattr(self, "loop"):
            self.loop.checkpoint.close()
        settings = Settings(**self.settings)
        query = compile_query(self.stream.to.files(str(self.folder / "out")).sink, CompileOptions.of(settings))
        self.loop = EpochLoop(
            recover(query, Checkpoint.open(self.folder / "ck"), settings), self.executor, clock=self.clock
        )

    def step(self, epochs: int = 1) -> list[Mark]:
        for _ in range(epochs):
            self.loop.step()
        return source_marks(self.loop.manifest.sources)

    def finish(self) -> None:
        for _ in range(1_000):
            if self.loop.step() is Outcome.FINISHED:
                return
        pytest.fail("the query does not come to its end")

    @property
    def result(self) -> pa.Table:
        """The rows published so far."""
        files = sorted((self.folder / "out").glob("*.parquet"))
        schema = self.loop.query.program.result_schema
        return pa.concat_tables([schema.empty_table(), *map(pq.read_table, files)])

    @property
    def counts(self) -> dict[int, int]:
        """By the start of the window."""
        rows = self.result
        return dict(zip(rows["window_start"].to_pylist(), rows["n"].to_pylist(), strict=True))

    @property
    def late(self) -> int:
        return self.loop.manifest.totals.late_rows


def tens(stream: Stream) -> Stream:
    return stream.window(ps.tumbling(10)).agg(n=ps.count())
