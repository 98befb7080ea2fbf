"""The reader of generated rows: what all generators share.

Row i is a function of the generator and of i alone, so a split can be read again, anywhere, and gives the same rows.
Random numbers have no state: each is a mixed function of (seed, column, row). The mixer is a finaliser of the multiply
and xor-shift kind over 64 bits, applied twice, to the seed and to the row.
"""

from __future__ import annotations

import time as clock
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.arrow import AnyArray
from penstock.connectors.recorded import NonNegative, recorded, unusable
from penstock.connectors.source import Offer, ReadResult, SizedSplit
from penstock.errors import ConfigError
from penstock.kernels.arrays import Words
from penstock.kernels.hash import STRIDE, mix
from penstock.type_names import TIMESTAMP
from penstock.types import conform, time_array

_MICROSECONDS = 1_000_000
_TABLE_BYTES = 32_000_000  # a split of wide rows gives several tables; the texts of one must stay below 2 GB


class Generator(ABC):
    """Base of connectors that generate rows from their numbers. They are frozen dataclasses, whose fields are as in
    `CallsConnector`."""

    rows: int | None
    rate: float
    realtime: bool
    start: int | None

    @property
    @abstractmethod
    def kind(self) -> str: ...

    @property
    @abstractmethod
    def rows_per_split(self) -> int: ...

    @property
    @abstractmethod
    def row_bytes(self) -> int:
        """Return how many bytes a row takes in memory."""

    @abstractmethod
    def discover(self) -> pa.Schema:
        """Return the schema of the rows."""

    @abstractmethod
    def generate(self, first: int, last: int, columns: tuple[str, ...]) -> pa.Table:
        """Return the rows [first, last), with the given columns."""

    @property
    def bounded(self) -> bool:
        return self.rows is not None

    def starting(self, start: int) -> Self:
        """Return the generator whose times begin at `start`."""
        return replace(cast(Any, self), start=start)  # type: ignore[no-any-return]

    def identity(self) -> dict[str, Any]:
        """Return all fields but `split_rows`, which can change between runs."""
        named = asdict(cast(Any, self)).items()
        return {"kind": self.kind} | {name: value for name, value in named if name != "split_rows"}

    def open(self, schema: pa.Schema, time: str) -> GeneratorReader:
        conform(self.discover().empty_table(), schema, f"the rows of `{self.kind}`")
        return GeneratorReader(self, schema)


@dataclass(frozen=True)
class GeneratedSplit(SizedSplit):
    """The rows [first, last) of a generator."""

    generator: Generator
    first: int
    last: int
    schema: pa.Schema

    @property
    def substream(self) -> str:
        return self.generator.kind

    @property
    def rows(self) -> int:
        return self.last - self.first

    @property
    def size(self) -> int:
        return self.rows * self.generator.row_bytes

    @property
    def where(self) -> str:
        return f"{self.generator.kind} [{self.first}, {self.last})"

    def read(self, columns: tuple[str, ...]) -> Iterator[ReadResult]:
        wanted = pa.schema([self.schema.field(name) for name in columns])
        step = max(1, _TABLE_BYTES // self.generator.row_bytes)
        for at in range(self.first, self.last, step):
            rows = self.generator.generate(at, min(at + step, self.last), columns)
            yield ReadResult(conform(rows, wanted, f"the rows of `{self.generator.kind}`"))


@dataclass(frozen=True)
class _RecordedRows:
    """The recorded progress: the number of rows read, and the time of the first offer if rows depend on it."""

    rows: NonNegative
    began_ns: int | None = None


class GeneratorReader:
    """Offers ranges of rows. Progress has the time of the first offer if the rows depend on it."""

    def __init__(self, generator: Generator, schema: pa.Schema) -> None:
        self._generator, self._schema = generator, schema

    def offer(self, progress: dict[str, Any] | None, max_rows: int) -> Offer:
        """Return the next range of rows, cut into splits of `rows_per_split`."""
        known = _RecordedRows(0) if progress is None else recorded(progress, _RecordedRows)
        first, began = known.rows, clock.time_ns() if known.began_ns is None else known.began_ns
        if self._generator.rows is not None and first > self._generator.rows:
            raise unusable(f"{first} rows are read, and there are {self._generator.rows}")
        due = self._due(began)
        step = self._generator.rows_per_split
        last = max(first, min(due, first + max(max_rows, 1)))
        begun = self._begun(began)
        splits = tuple(GeneratedSplit(begun, at, min(at + step, last), self._schema) for at in range(first, last, step))
        after: dict[str, Any] = {"rows": last}
        if self._generator.realtime or self._generator.start is None:
            after["began_ns"] = began
        return Offer(splits, after, last == self._generator.rows, self._waiting(last, due))

    def _begun(self, began: int) -> Generator:
        """Return the generator with a start of its times: by default the first offer, rounded down to a second."""
        start = self._generator.start
        return self._generator.starting(began // 10**9 * _MICROSECONDS if start is None else start)

    def _due(self, began: int) -> int:
        """Return the number of rows that can be offered by now."""
        rows = self._generator.rows
        if not self._generator.realtime:
            return 2**62 if rows is None else rows
        passed = max(0, clock.time_ns() - began)
        by_now = int(passed * self._generator.rate / 1e9)
        return by_now if rows is None else min(rows, by_now)

    def _waiting(self, last: int, due: int) -> int:
        """Return the number of rows due and not offered; 0 for an unbounded source without `realtime`."""
        endless = self._generator.rows is None and not self._generator.realtime
        return 0 if endless else max(0, due - last)


def check_least(least: dict[str, tuple[int | None, int]]) -> None:
    """Raise ConfigError for an option below the least value that it can have."""
    for name, (value, smallest) in least.items():
        if value is not None and value < smallest:
            raise ConfigError(
                f"`{name}` must be at least {smallest}", detail=f"it is {value}", hint="leave it out for the default"
            )


def check_rate(rate: float) -> None:
    """Raise ConfigError unless a rate is above 0 and finite."""
    if not 0 < rate < float("inf"):
        raise ConfigError("`rate` must be above 0", detail=f"it is {rate}", hint="it is rows per second of event time")


def table_of(schema: pa.Schema, arrays: list[AnyArray], rows: int) -> pa.Table:
    """Return a table with this many rows, which may have no columns."""
    return pa.table(arrays, schema=schema) if arrays else pa.table({"row": pa.nulls(rows)}).select([])


def event_times(start: int | None, rate: float, rows: npt.NDArray[np.int64], lags: npt.NDArray[np.int64]) -> AnyArray:
    """Return the event times of rows, in microseconds: `rate` rows per second from `start`, each late by its lag."""
    times = (start or 0) + np.floor(rows / rate * _MICROSECONDS).astype(np.int64)
    return time_array(times - lags, TIMESTAMP)


def drawn_lags(disorder: int, seed: int, column: int, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return a number of microseconds in [0, disorder) for each row."""
    return np.floor(uniforms(seed, column, rows) * disorder).astype(np.int64) if disorder else np.zeros(1, np.int64)


def uniforms(seed: int, column: int, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return a number in [0, 1) for each row, with 53 random bits."""
    mixed = mix(random_key(seed, column) + rows.astype(np.uint64) * STRIDE)
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def random_key(seed: int, column: int) -> Words:
    """Return the word, in an array of one, to which the random numbers of a column are added up."""
    return mix(mix(np.array([seed % 2**64], np.uint64)) + np.array([column + 1], np.uint64) * STRIDE)
