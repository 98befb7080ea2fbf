"""The process of the epochs of `epoch-cost`: it runs the next epoch of the script when it is told to."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import duckdb

import penstock as ps
from penstock.engine.driver.loop import EpochLoop
from penstock.events import EpochCommitted, Event
from penstock_bench.check.digest import digest, parquet
from penstock_bench.experiments.epoch_script import WINDOW, Sizes, closed_rows, script
from penstock_bench.experiments.part import serve
from penstock_bench.experiments.scripted import ScriptedConnector
from penstock_bench.experiments.stepped import stepped, stored_rows


@dataclass(frozen=True)
class Order:
    """`begin` the query, `step` to its next epoch, or `end` it. The script is that of `sizes` and `cycles`; `exchange`
    is the setting of the run."""

    do: Literal["begin", "step", "end"]
    sizes: Sizes
    cycles: int
    master: str
    exchange: str
    folder: str


@dataclass(frozen=True)
class Done:
    """`seconds` of the step. At the end: the rows of state that are there, how many rows were late, and whether the
    results are the batch answer."""

    seconds: float = 0.0
    state_rows: int = 0
    late_rows: int = 0
    equal: bool = True


class Epochs:
    """Does as it is told."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._loop: EpochLoop | None = None
        self._late_rows = 0

    def obey(self, order: Order) -> Done:
        match order.do:
            case "begin":
                self._loop = self._begun(order)
                return Done()
            case "step":
                began = time.perf_counter()
                self._running().step()
                return Done(time.perf_counter() - began)
            case "end":
                return self._end(order)

    def _begun(self, order: Order) -> EpochLoop:
        folder, steps = Path(order.folder), tuple(one.step for one in script(order.sizes, order.cycles))
        rows = ps.read.source(ScriptedConnector(steps, "lots"), time="ts", progress=ps.ordered())
        windows = rows.group_by("k").window(ps.tumbling(f"{WINDOW}us")).agg(n=ps.count(), s=ps.sum("v"))
        ready = windows.to.files(str(folder / "rows"))
        options = {"master": order.master, "exchange": order.exchange, "sites": 2}
        return self._stack.enter_context(stepped(ready, folder / "checkpoint", self._hear, **options))

    def _running(self) -> EpochLoop:
        assert self._loop is not None, "begin comes first"
        return self._loop

    def _end(self, order: Order) -> Done:
        rows = stored_rows(self._running())
        self._stack.close()
        return Done(state_rows=rows, late_rows=self._late_rows, equal=_equal(order))

    def _hear(self, event: Event) -> None:
        if isinstance(event, EpochCommitted):
            self._late_rows += event.late_rows


def _equal(order: Order) -> bool:
    exact, published = ("k", "epoch_us(window_start)", "n::BIGINT"), parquet(Path(order.folder) / "rows")
    with duckdb.connect() as connection:
        connection.register("expected", closed_rows(script(order.sizes, order.cycles)))
        return digest(connection, "expected", exact, ["s"]).same(digest(connection, published, exact, ["s"]))


if __name__ == "__main__":
    serve(Order, Epochs().obey)
