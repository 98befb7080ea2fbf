"""Queries with much state, over Parquet files that are written once: streams, results, and the same in batch.

All rows have `ts`, `k` and `text`. Times ascend by a millisecond a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

import penstock as ps
from penstock.api.streams import Stream

FILE_BYTES, OTHER_BYTES = 100_000_000, 40  # of a file; of a row beside its text
STEP = 1000  # microseconds between two rows of a stream
ALL = "365d"  # longer than any stream here
_SPREAD = 0x9E3779B97F4A7C15 | 1  # an odd number: multiples of it, modulo a power of two, are all different


class LargeQuery(Protocol):
    """A query with much state. `streams` have `rows` rows each; `keys` are those of one stream, by the numbers of its
    rows."""

    @property
    def streams(self) -> tuple[str, ...]: ...

    @property
    def rows(self) -> int: ...

    @property
    def text(self) -> int: ...

    def keys(self, random: np.random.Generator, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]: ...

    def results(self, *streams: Stream) -> Stream: ...

    def batch(self, *tables: str) -> str:
        """Return the same query as SQL over tables, with the columns of the results in their order."""


@dataclass(frozen=True)
class BandJoin:
    """A join of two streams in which a key has about one row. The state is all rows, or with `within` those of so many
    milliseconds."""

    rows: int
    text: int
    within: int | None = None
    streams: tuple[str, ...] = ("left", "right")

    def keys(self, random: np.random.Generator, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return random.integers(0, self.within or self.rows, len(rows))

    def results(self, *streams: Stream) -> Stream:
        left, right = streams
        within = ALL if self.within is None else f"{self.within}ms"
        join = left.join(right, on="k", within=(within, within))
        return join.select("k", a=ps.col("text"), b=ps.col("right_text")).where(ps.col("k") >= 0)

    def batch(self, *tables: str) -> str:
        left, right = tables
        span = f"INTERVAL '{self.within}' MILLISECOND"
        near = "" if self.within is None else f" AND r.ts BETWEEN l.ts - {span} AND l.ts + {span}"
        return f"SELECT l.k, l.text a, r.text b FROM {left} l JOIN {right} r ON l.k = r.k{near}"


@dataclass(frozen=True)
class ThreeWayJoin:
    """A join of three streams that keep all of their rows, each key about once in each of them."""

    rows: int
    text: int
    streams: tuple[str, ...] = ("first", "second", "third")

    def keys(self, random: np.random.Generator, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return random.integers(0, self.rows, len(rows))

    def results(self, *streams: Stream) -> Stream:
        join = ps.join_all(streams, on="k", within=(ALL, ALL))
        return join.select("k", a=ps.col("text"), b=ps.col("text_2"), c=ps.col("text_3"))

    def batch(self, *tables: str) -> str:
        a, b, c = tables
        return f"SELECT k, a.text a, b.text b, c.text c FROM {a} a JOIN {b} b USING (k) JOIN {c} c USING (k)"


@dataclass(frozen=True)
class ManyGroups:
    """A count of the rows of each key, in one window. All keys come once; then some come again."""

    groups: int  # a power of two
    text: int = 0
    streams: tuple[str, ...] = ("keyed",)

    @property
    def rows(self) -> int:
        return self.groups + self.groups // 4

    def keys(self, random: np.random.Generator, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        scattered = (rows.astype(np.uint64) * np.uint64(_SPREAD)) % np.uint64(self.groups)
        return scattered.astype(np.int64)

    def results(self, *streams: Stream) -> Stream:
        (keyed,) = streams
        counted = keyed.group_by("k").window(ps.tumbling(ALL)).agg(n=ps.count(), first=ps.min("ts"))
        return counted.select("k", a=ps.col("n"), b=ps.col("first"))

    def batch(self, *tables: str) -> str:
        return f"SELECT k, count(*) a, min(ts) b FROM {tables[0]} GROUP BY k"


def write_input(query: LargeQuery, folder: Path) -> None:
    """Write the streams of a query as Parquet files, unless they are there."""
    for seed, name in enumerate(query.streams):
        if not (folder / name).exists():
            _write_stream(query, folder / name, seed)


def read_input(query: LargeQuery, folder: Path) -> list[Stream]:
    """Return the streams of a query over the files that were written."""
    return [
        ps.read.files(str(folder / name / "*.parquet"), time="ts", progress=ps.slack("1s"), name=name)
        for name in query.streams
    ]


def _write_stream(query: LargeQuery, folder: Path, seed: int) -> None:
    folder.mkdir(parents=True)
    random, per_file = np.random.default_rng(seed), max(100, FILE_BYTES // (query.text + OTHER_BYTES))
    letters = random.integers(97, 123, 4 * query.text + 1_000_000, np.uint8)
    for number, first in enumerate(range(0, query.rows, per_file)):
        numbers = np.arange(first, min(first + per_file, query.rows))
        columns = {"ts": pa.array(STEP * numbers, pa.timestamp("us")), "k": query.keys(random, numbers)}
        texts = {"text": _texts(random, letters, len(numbers), query.text)} if query.text else {}
        pq.write_table(
            pa.table(columns | texts), folder / f"{number:05}.parquet", max(50, per_file // 10),
            compression="none", use_dictionary=False,
        )  # fmt: skip


def _texts(
    random: np.random.Generator, letters: npt.NDArray[np.uint8], count: int, length: int
) -> pa.Array[pa.StringScalar]:
    """Return texts that are pieces of one block of letters."""
    starts = random.integers(0, len(letters) - length, count)
    values = b"".join(letters[at : at + length].tobytes() for at in starts.tolist())
    offsets = pa.py_buffer((np.arange(count + 1) * length).astype(np.int32).tobytes())
    return pa.StringArray.from_buffers(count, offsets, pa.py_buffer(values))
