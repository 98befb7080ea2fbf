"""The rows of `adapt-fetch`: wide ones that make up the state, and narrow ones that look them up.

Every wide row has a key of its own, and its text depends on its key only; so what a result must be can be told without
keeping all the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.arrow import AnyArray, arrow_buffer, schema_of
from penstock.connectors.source import Offer, ReadResult

WIDE = schema_of({"ts": pa.timestamp("us"), "k": pa.int64(), "text": pa.string()})
NARROW = schema_of({"ts": pa.timestamp("us"), "k": pa.int64(), "n": pa.int64()})
SECOND = 1_000_000
_STRIDE = 1_000_003  # a prime: neighbours look up keys that lie far apart


@dataclass(frozen=True)
class Lot:
    """The rows of one stream in one epoch: the `number`-th second. `first` is the first key of wide rows, each with a
    text of `letters` letters; narrow rows look up some of the keys below `first`."""

    number: int
    rows: int
    first: int
    letters: int = 0

    substream = ""

    @property
    def where(self) -> str:
        return f"lot {self.number}"

    def table(self) -> pa.Table:
        order = np.arange(self.rows, dtype=np.int64)
        times = self.number * SECOND + order * SECOND // max(1, self.rows)
        if self.letters:
            return pa.table([times.astype("datetime64[us]"), self.first + order, self._texts()], schema=WIDE)
        keys = (order * _STRIDE + self.number) % self.first
        return pa.table([times.astype("datetime64[us]"), keys, order], schema=NARROW)

    def _texts(self) -> AnyArray:
        draw = np.random.default_rng(self.first)
        letters = draw.integers(ord("a"), ord("z"), self.rows * self.letters, dtype=np.uint8, endpoint=True)
        ends = np.arange(self.rows + 1, dtype=np.int32) * self.letters
        return pa.StringArray.from_buffers(self.rows, arrow_buffer(ends.astype(np.int32)), arrow_buffer(letters))

    def read(self, columns: tuple[str, ...]) -> Iterator[ReadResult]:
        yield ReadResult(self.table().select(list(columns)))


def wide_lots(rows: Sequence[int], letters: int) -> list[Lot]:
    """One for each epoch, with so many rows."""
    firsts = [0, *accumulate(rows)]
    return [Lot(number, count, firsts[number], letters) for number, count in enumerate(rows)]


def narrow_lots(wide: Sequence[Lot], rows: int) -> list[Lot]:
    """Each looks up keys of earlier wide rows; the first, which would find none, has no rows."""
    return [replace(lot, rows=rows if lot.first else 0, letters=0) for lot in wide]


@dataclass(frozen=True)
class LotsConnector:
    """One lot per epoch. After the last one it waits, and never ends, so that state stays where it is."""

    lots: tuple[Lot, ...]
    name: str
    schema: pa.Schema
    kind: str = "lots"

    @property
    def bounded(self) -> bool:
        return False

    def identity(self) -> dict[str, Any]:
        return {"kind": self.kind, "name": self.name, "lots": len(self.lots)}

    def discover(self) -> pa.Schema:
        return self.schema

    def open(self, schema: pa.Schema, time: str) -> LotsReader:
        return LotsReader(self.lots)


class LotsReader:
    def __init__(self, lots: tuple[Lot, ...]) -> None:
        self._lots = lots

    def offer(self, progress: dict[str, Any] | None, max_rows: int) -> Offer:
        place = 0 if progress is None else int(progress["lots"])
        if place >= len(self._lots):
            return Offer((), progress or {"lots": 0}, False)
        lot = self._lots[place]
        return Offer((lot,) if lot.rows else (), {"lots": place + 1}, False)
