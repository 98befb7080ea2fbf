"""The process of a system that follows a folder: it begins a query, says when some rows are through, and ends it.

The question is the same for both systems: rows counted and summed by key in windows of PERIOD microseconds.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import penstock as ps
from penstock_bench.experiments.part import serve
from penstock_bench.experiments.scripted import SCHEMA
from penstock_bench.system import Limits

PERIOD = 100_000  # microseconds: of a window, and between two files
KEYS = 100
EPOCH = "100ms"  # of Penstock: for results that are soon there, not for the most rows per second
_LOOK = 0.01
_PATIENCE = 600.0

SPARK_TEXT = f"""
    SELECT k % {KEYS} AS k, window.start AS window_start, count(*) AS n, sum(v) AS s
    FROM rows GROUP BY k % {KEYS}, window(ts, '{PERIOD} microseconds')"""


@dataclass(frozen=True)
class Order:
    """`begin`: follow `rows`, put results below `out`. `until`: wait until `count` rows of it are through. `end`: stop
    the query. `scratch` is for what a system keeps over several queries."""

    do: Literal["begin", "until", "end"]
    system: str
    rows: str
    out: str
    scratch: str
    count: int = 0
    master: str = "local[2]"
    cores: int = 2


class Live(Protocol):
    """A query that runs."""

    def through(self, count: int) -> bool:
        """Whether so many rows have been read and their results are there."""
        ...

    def end(self) -> None: ...


class _OfPenstock:
    def __init__(self, order: Order) -> None:
        types = {"ts": "TIMESTAMP", "k": "BIGINT", "v": "DOUBLE"}
        rows = ps.read.files(f"{order.rows}/*.parquet", time="ts", progress=ps.ordered(), follow=True, schema=types)
        by_key = rows.group_by(k=ps.col("k") % KEYS)
        windows = by_key.window(ps.tumbling(f"{PERIOD}us")).agg(n=ps.count(), s=ps.sum("v"))
        ready = windows.to.files(f"{order.out}/rows")
        self._run = ready.start(f"{order.out}/checkpoint", sites=order.cores, master=order.master, epoch=EPOCH)

    def through(self, count: int) -> bool:
        if not self._run.running:
            self._run.wait()
        return self._run.progress.rows_in >= count

    def end(self) -> None:
        self._run.stop()


class _OfSpark:
    """One session for all queries of the process."""

    session: object = None

    def __init__(self, order: Order) -> None:
        from penstock_bench.systems.spark_live import SparkLive

        kept = type(self).session or SparkLive(Limits(cores=order.cores), Path(order.scratch))
        assert isinstance(kept, SparkLive)
        type(self).session = kept
        self._query = kept.start({"rows": Path(order.rows)}, SCHEMA, SPARK_TEXT, Path(order.out))

    def through(self, count: int) -> bool:
        """Spark says when all files that are there are through, and they are."""
        self._query.processAllAvailable()
        return True

    def end(self) -> None:
        self._query.stop()


SYSTEMS: dict[str, type[Live]] = {"penstock": _OfPenstock, "spark": _OfSpark}


class Follower:
    """Does as it is told, with one query at a time; gives the seconds since the query was begun."""

    def __init__(self) -> None:
        self._live: Live | None = None
        self._began = 0.0

    def obey(self, order: Order) -> float:
        match order.do:
            case "begin":
                self._began = time.perf_counter()
                self._live = SYSTEMS[order.system](order)  # type: ignore[call-arg]
            case "until":
                self._wait(order.count)
            case "end":
                self._running().end()
        return time.perf_counter() - self._began

    def _running(self) -> Live:
        assert self._live is not None, "begin comes first"
        return self._live

    def _wait(self, count: int) -> None:
        stop = time.monotonic() + _PATIENCE
        while not self._running().through(count):
            if time.monotonic() > stop:
                raise TimeoutError(f"{count} rows were not through after {_PATIENCE:.0f} s")
            time.sleep(_LOOK)


if __name__ == "__main__":
    serve(Order, Follower().obey)
