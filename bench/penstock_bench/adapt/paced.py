"""A source whose rows arrive at a rate, and that notes how long they wait to be taken in. Rows are made in the task
that reads them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.connectors.source import Offer, ReadResult
from penstock_bench.experiments.scripted import SCHEMA

STRIDE = 1_000_003  # a prime: as many rows as keys have every key once
SUBSTREAM = "paced"
LEAST_SPLITS, SPLIT_ROWS = 2, 200_000
FIRST_ROWS = 1_000  # these are there at once: the clock runs from when they are through


def rows_between(low: int, high: int, rate: int, keys: int) -> pa.Table:
    """The rows with these numbers: `rate` of them in a second of event time."""
    number = np.arange(low, high, dtype=np.int64)
    times = (number * 1_000_000 // rate).astype("datetime64[us]")
    return pa.table([times, number * STRIDE % keys, (number % 1000) / 8], schema=SCHEMA)


@dataclass(frozen=True)
class PacedSplit:
    low: int
    high: int
    rate: int
    keys: int
    substream: str = SUBSTREAM

    @property
    def rows(self) -> int:
        return self.high - self.low

    @property
    def where(self) -> str:
        return f"paced rows from {self.low}"

    def read(self, columns: tuple[str, ...]) -> Iterator[ReadResult]:
        yield ReadResult(rows_between(self.low, self.high, self.rate, self.keys).select(list(columns)))


@dataclass(frozen=True, eq=False)
class PacedConnector:
    """`rows` rows of `keys` keys, `rate` a second. `lags` are seconds, one for each time that rows were asked for: how
    long the oldest row had waited then."""

    rows: int
    rate: int
    keys: int
    lags: list[float] = field(default_factory=list)
    kind: str = "paced"

    @property
    def bounded(self) -> bool:
        return True

    def identity(self) -> dict[str, Any]:
        return {"kind": self.kind, "rows": self.rows, "rate": self.rate, "keys": self.keys}

    def discover(self) -> pa.Schema:
        return SCHEMA

    def open(self, schema: pa.Schema, time: str) -> PacedReader:
        return PacedReader(self)


class PacedReader:
    """It is for one run without a restart: the clock is its own."""

    def __init__(self, source: PacedConnector) -> None:
        self._source = source
        self._began = 0.0

    def offer(self, progress: dict[str, Any] | None, max_rows: int) -> Offer:
        if progress is None:
            return self._offered(0, FIRST_ROWS, FIRST_ROWS)
        self._began = self._began or time.monotonic()
        given, source = int(progress["rows"]), self._source
        gone = time.monotonic() - self._began
        there = min(source.rows, FIRST_ROWS + int(gone * source.rate))
        if given < there:
            source.lags.append(gone - (given - FIRST_ROWS) / source.rate)
        return self._offered(given, min(there, given + max_rows), there)

    def _offered(self, low: int, high: int, there: int) -> Offer:
        source = self._source
        count = max(LEAST_SPLITS, -(-(high - low) // SPLIT_ROWS))
        borders = sorted({low + (high - low) * n // count for n in range(count + 1)})
        splits = [PacedSplit(a, b, source.rate, source.keys) for a, b in pairwise(borders)]
        return Offer(tuple(splits), {"rows": high}, high >= source.rows, there - high)
