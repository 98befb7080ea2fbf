"""A source that offers, epoch by epoch, exactly what a script says. Rows are made in the task that reads them, so what
travels is as small as the name of a file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.arrow import schema_of
from penstock.connectors.source import Offer, ReadResult

SCHEMA = schema_of({"ts": pa.timestamp("us"), "k": pa.int64(), "v": pa.float64()})
_STRIDE = 1_000_003  # a prime: as many rows as keys have every key once


@dataclass(frozen=True)
class Step:
    """What one epoch is given: `rows` rows of `substream`, with times spread over [low, high) in rising order and keys
    from `first_key`, distinct while there are no more rows than `keys`. `finished` names the substreams that end."""

    substream: str = ""
    rows: int = 0
    low: int = 0
    high: int = 1
    first_key: int = 0
    keys: int = 1
    finished: tuple[str, ...] = ()

    def table(self) -> pa.Table:
        number = np.arange(self.rows, dtype=np.int64)
        times = self.low + number * (self.high - self.low) // max(1, self.rows)
        keys = self.first_key + number * _STRIDE % self.keys
        return pa.table([times.astype("datetime64[us]"), keys, (number % 1000) / 8], schema=SCHEMA)


@dataclass(frozen=True)
class ScriptedSplit:
    step: Step

    @property
    def substream(self) -> str:
        return self.step.substream

    @property
    def rows(self) -> int:
        return self.step.rows

    @property
    def where(self) -> str:
        return f"scripted rows of {self.substream}"

    def read(self, columns: tuple[str, ...]) -> Iterator[ReadResult]:
        yield ReadResult(self.step.table().select(list(columns)))


@dataclass(frozen=True)
class ScriptedConnector:
    """One step per epoch. After the last one it waits, and never ends, so that state stays where it is."""

    script: tuple[Step, ...]
    name: str
    kind: str = "scripted"

    @property
    def bounded(self) -> bool:
        return False

    def identity(self) -> dict[str, Any]:
        return {"kind": self.kind, "name": self.name, "steps": len(self.script)}

    def discover(self) -> pa.Schema:
        return SCHEMA

    def open(self, schema: pa.Schema, time: str) -> ScriptedReader:
        return ScriptedReader(self.script)


class ScriptedReader:
    def __init__(self, script: tuple[Step, ...]) -> None:
        self._script = script

    def offer(self, progress: dict[str, Any] | None, max_rows: int) -> Offer:
        place = 0 if progress is None else int(progress["steps"])
        if place >= len(self._script):
            return Offer((), progress or {"steps": 0}, False)
        step = self._script[place]
        splits = (ScriptedSplit(step),) if step.rows else ()
        waiting = sum(later.rows for later in self._script[place + 1 :])
        return Offer(splits, {"steps": place + 1}, False, waiting, step.finished)
