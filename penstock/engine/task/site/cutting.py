"""Sorted rows that can be cut by hash, and ranges of hashes cut so that no part has too many rows or bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa

from penstock.engine.task.site.storing import Storage
from penstock.operators.arrange import hashes_of
from penstock.state.hash_ranges import Hashes, HashRange
from penstock.state.runs import Slice, restrict


class RowsByHash(Protocol):
    """Rows sorted by hash, in memory or in a run."""

    @property
    def hashes(self) -> Hashes:
        """Return the hashes of all rows."""
        ...

    @property
    def most_bytes(self) -> int:
        """Return an upper bound of the bytes of all rows, at little cost."""
        ...

    def inside(self, part: HashRange) -> pa.Table:
        """Return the rows of a range."""
        ...

    def size(self, part: HashRange) -> int:
        """Return the bytes of the rows of a range."""
        ...


@dataclass(frozen=True, eq=False)
class TableRows:
    """The rows of a table in memory."""

    table: pa.Table

    @cached_property
    def hashes(self) -> Hashes:
        return hashes_of(self.table)

    @property
    def most_bytes(self) -> int:
        return int(self.table.nbytes)

    def inside(self, part: HashRange) -> pa.Table:
        return self.table[part.rows(self.hashes)]

    def size(self, part: HashRange) -> int:
        return int(self.inside(part).nbytes)


@dataclass(frozen=True, eq=False)
class SliceRows:
    """The rows of a slice, read when they are needed. Its rows must have been fetched."""

    storage: Storage
    slice: Slice

    @cached_property
    def hashes(self) -> Hashes:
        return self.storage.hashes(self.slice)

    @property
    def most_bytes(self) -> int:
        return self.slice.run.size

    def inside(self, part: HashRange) -> pa.Table:
        for piece in restrict([self.slice], [part]):
            return self.storage.read(piece)
        return self.storage.read(self.slice).slice(0, 0)

    def size(self, part: HashRange) -> int:
        return sum(map(self.storage.size, restrict([self.slice], [part])))


@dataclass(frozen=True, eq=False)
class EstimatedRows(SliceRows):
    """The rows of a slice, with bytes estimated from the mean of the run: for rows that are looked up, not copied."""

    def size(self, part: HashRange) -> int:
        rows = part.rows(self.hashes)
        return int((rows.stop - rows.start) * self.slice.run.size // self.slice.run.rows)


@dataclass(frozen=True)
class PartLimits:
    """The most rows and bytes that a part of a range should have (None: any number)."""

    rows: int | None = None
    bytes: int | None = None


def cut(part: HashRange, sources: Sequence[RowsByHash], limits: PartLimits) -> Iterator[HashRange]:
    """Yield the range in parts: no part is empty unless the whole range is, and none exceeds the limits unless its rows
    have the same hash."""
    if limits.bytes is not None and sum(source.most_bytes for source in sources) <= limits.bytes:
        limits = PartLimits(limits.rows)
    if limits == PartLimits():
        return iter((part,))  # nothing needs to be read
    return _cut(part, [(source, source.hashes[part.rows(source.hashes)]) for source in sources], limits)


def _cut(part: HashRange, columns: Sequence[tuple[RowsByHash, Hashes]], limits: PartLimits) -> Iterator[HashRange]:
    filled = [(source, hashes) for source, hashes in columns if len(hashes)]
    if _fits(part, filled, limits):
        yield part
        return
    first, last = min(int(hashes[0]) for _, hashes in filled), max(int(hashes[-1]) for _, hashes in filled)
    if first == last:
        yield part
        return
    border = shortest_prefix(first, last)
    places = [int(np.searchsorted(hashes, np.uint64(border))) for _, hashes in filled]
    below = [(source, hashes[:place]) for (source, hashes), place in zip(filled, places, strict=True)]
    above = [(source, hashes[place:]) for (source, hashes), place in zip(filled, places, strict=True)]
    yield from _cut(HashRange(part.low, border), below, limits)
    yield from _cut(HashRange(border, part.high), above, limits)


def _fits(part: HashRange, columns: Sequence[tuple[RowsByHash, Hashes]], limits: PartLimits) -> bool:
    if limits.rows is not None and sum(len(hashes) for _, hashes in columns) > limits.rows:
        return False
    return limits.bytes is None or sum(source.size(part) for source, _ in columns) <= limits.bytes


def shortest_prefix(first: int, last: int) -> int:
    """Return the number in (first, last] with the most trailing zero bits."""
    low_bits = (first ^ last).bit_length() - 1
    return last >> low_bits << low_bits
