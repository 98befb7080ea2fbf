"""A gate in front of in-memory batches: a test decides how many of them a run in another process may read, so that the
query keeps running while the test uses it."""

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
    """The number of batches of each source that may be read, stored in a file. The last batch waits until all may be
    read."""

    path: Path

    def let_all_through(self) -> None:
        """Allow all batches."""
        self.let_through(ALL)

    def let_through(self, batches: int) -> None:
        """Allow this many batches."""
        new = self.path.with_suffix(".new")
        new.write_text(str(batches))
        os.replace(new, self.path)

    @property
    def batches(self) -> int:
        """Return the number of batches allowed."""
        return int(self.path.read_text()) if self.path.exists() else 0

    def open_of(self, batches: int) -> int:
        """Return how many of `batches` batches may be read now."""
        return batches if (now := self.batches) == ALL else min(now, batches - 1)


@dataclass(frozen=True, eq=False)
class GatedConnector(MemoryConnector):
    """An in-memory source behind a gate."""

    gate: Gate = Gate(Path())

    def open(self, schema: pa.Schema, time: str) -> GatedReader:  # type: ignore[override]
        return GatedReader(super().open(schema, time), len(self.batches), self.gate)


class GatedReader:
    """Offers the batches that the gate allows; the others look as if they had not arrived yet."""

    def __init__(self, inner: MemoryReader, batches: int, gate: Gate) -> None:
        self._inner, self._batches, self._gate = inner, batches, gate

    def offer(self, progress: dict[str, Any] | None, max_rows: int) -> Offer:
        read, open_ = int((progress or {}).get("batches", 0)), self._gate.open_of(self._batches)
        if read >= open_:
            return Offer((), progress or {}, False)
        offer = self._inner.offer(progress or None, max_rows)
        return offer if read + 1 < open_ else replace(offer, waiting=0)


def gated(scenario: Scenario, gate: Gate) -> Scenario:
    """Return the scenario with its sources behind the gate, one batch per epoch."""

    def change(source: Source) -> Source:
        batches = connector_of(source)
        return replace(source, connector=GatedConnector(batches.batches, batches.splits_per_batch, True, gate=gate))

    return replace(scenario, stream=type(scenario.stream)(with_sources(scenario.stream.node, change)))
