"""Connector of a case: offers exactly the epochs that are written, then ends the stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa

from penstock.connectors.bad_rows import divert_malformed
from penstock.connectors.source import Offer, ReadResult
from penstock.errors import ConfigError
from penstock.plan.logical import Connector
from tests.support.cases.input import Epochs, Part, cut_again, epochs_in, read_input


@dataclass(frozen=True)
class CaseConnectors:
    """Creates the connector `case` for the input that a source names; with `random`, its splits are divided into
    smaller ones. All inputs get equally many epochs."""

    inputs: Mapping[str, str]
    random: Random | None = None

    def source(self, kind: str, options: dict[str, str], schema: pa.Schema | None) -> CaseConnector:
        if kind != CaseConnector.kind or schema is None or set(options) - {"input"}:
            raise ConfigError("a case declares the columns of its source, WITH (connector = 'case')")
        name = options.get("input", "")
        if name and name not in self.inputs:
            raise ConfigError(f"there is no --- input {name}", hint="WITH (connector = 'case', input = 'the name')")
        epochs = read_input(self.inputs.get(name, ""), schema)
        epochs += ((),) * (max(map(epochs_in, self.inputs.values()), default=0) - len(epochs))
        return CaseConnector(name, cut_again(epochs, self.random) if self.random else epochs)

    def sink(self, kind: str, options: dict[str, str]) -> Connector:
        raise ConfigError("a case has no sink", hint="end it with a SELECT")


@dataclass(frozen=True)
class CaseConnector:
    """The epochs of one input as a source."""

    name: str
    epochs: Epochs
    kind = "case"

    def identity(self) -> dict[str, Any]:
        return {"name": self.name, "rows": [sum(part.rows.num_rows for part in epoch) for epoch in self.epochs]}

    def open(self, schema: pa.Schema, time: str) -> CaseReader:
        return CaseReader(self.epochs, time)


@dataclass(frozen=True)
class CaseReader:
    """Offers one epoch at a time."""

    epochs: Epochs
    time: str

    def offer(self, progress: dict[str, Any] | None, max_rows: int) -> Offer:
        read = 0 if progress is None else int(progress["epochs"])
        if read == len(self.epochs):
            return Offer((), {"epochs": read}, True)
        splits = tuple(CaseSplit(part, read + 1, n, self.time) for n, part in enumerate(self.epochs[read], 1))
        return Offer(splits, {"epochs": read + 1}, False, waiting=1)


@dataclass(frozen=True)
class CaseSplit:
    """One split of an epoch."""

    part: Part
    epoch: int
    number: int
    time: str

    @property
    def substream(self) -> str:
        return self.part.substream

    @property
    def rows(self) -> int:
        return int(self.part.rows.num_rows)

    @property
    def where(self) -> str:
        return f"epoch {self.epoch}, split {self.number}"

    def read(self, columns: tuple[str, ...]) -> Iterator[ReadResult]:
        names = list(dict.fromkeys((*columns, self.time)))
        found = divert_malformed(self.part.rows.select(names), self.time, self.where, lambda: 0)
        yield ReadResult(found.rows.select(list(columns)), found.bad)
