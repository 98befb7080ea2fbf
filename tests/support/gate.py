"""A gate before batches in memory: a run in another process gets as many of them as its test lets through, so a query
goes on for as long as there is something to try out on it."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.connectors.memory import MemoryConnector, MemoryReader
from penstock.connectors.source import Offer
from penstock.plan.logical import Source
from penstock.testing.source_rows import connector_of, with_sources
from tests.support.crashes import Scenario

ALL = 10**9


@dataclass(frozen=True)
class Gate:
    """The number of batches of each source that may be read, in a file. The last batch waits until all may."""

    path: Path

    def let_all_through(self) -> None:
        self.let_through(ALL)

    def let_through(self, batches: int) -> None:
        new = self.path.with_suffix(".new")
        new.write_text(str(batches))
        os.replace(new, self.path)

    @property
    def batches(self) -> int:
        return int(self.path.read_text()) if self.path.exists() else 0

    def open_of(self, batches: int) -> int:
        """How many of as many batches may be read now."""
        return batches if (now := self.batches) == ALL else min(now, batches - 1)


@dataclass(frozen=True, eq=False)
class GatedConnector(MemoryConnector):
    gate: Gate = Gate(Path())

    def open(self, schema: pa.Schema, time: str) -> GatedReader:  # type: ignore[override]
        return GatedReader(super().open(schema, time), len(self.batches), self.gate)


class GatedReader:
    """What lies behind the gate is not there yet, but is still to come."""

    def __init__(self, inner: MemoryReader, batches: int, gate: Gate) -> None:
        self._inner, self._batches, self._gate = inner, batches, gate

    def offer(self, progress: dict[str, Any] | None, max_rows: int) -> Offer:
        read, open_ = int((progress or {}).get("batches", 0)), self._gate.open_of(self._batches)
        if read >= open_:
            return Offer((), progress or {}, False)
        offer = self._inner.offer(progress or None, max_rows)
        return offer if read + 1 < open_ else replace(offer, waiting=0)


def gated(scenario: Scenario, gate: Gate) -> Scenario:
    """The same scenario, whose rows come as the gate lets them through, a batch in each epoch."""

    def change(source: Source) -> Source:
        batches = connector_of(source)
        return replace(source, connector=GatedConnector(batches.batches, batches.splits_per_batch, True, gate=gate))

    return replace(scenario, stream=type(scenario.stream)(with_sources(scenario.stream.node, change)))
