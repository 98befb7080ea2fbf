"""The streams of D-Cape, section 3.4: joined on a key, with a known number of results; and the batch answer of that."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import penstock as ps
from penstock.connectors.generator.joinable import JoinableConnector
from penstock_bench.check.digest import Digest, digest
from penstock_bench.check.oracle import found_rows, session

FOR_EVER = 360_000  # seconds, longer than any of the streams: no row expires
_COLUMNS = ("x", "y", "z")


@dataclass(frozen=True)
class Streams:
    """Three streams of `rows` rows each; the other fields are those of `JoinableConnector`. `seconds` bounds how far
    apart the times of a result are: rows of the state expire if it is short."""

    rows: int
    ratios: tuple[int, ...] = (1,)
    tuple_range: int = 30_000
    partitions: int = 300
    rate: float = 100_000.0
    skew: float = 1.0
    alternate: tuple[int, ...] = (300_000_000, 600_000_000)
    seconds: int = FOR_EVER
    inputs: int = 3

    @property
    def connectors(self) -> list[JoinableConnector]:
        """Return the generators of the streams."""
        return [
            JoinableConnector(
                number,
                rows=self.rows,
                rate=self.rate,
                tuple_range=self.tuple_range,
                ratios=self.ratios,
                partitions=self.partitions,
                skew=self.skew,
                alternate=self.alternate,
            )
            for number in range(self.inputs)
        ]

    @property
    def results(self) -> int:
        """Return how many results a join has in which no row expires; streams without skew, of whole ranges."""
        ranges = self.rows // self.tuple_range
        return sum(self.rows // len(self.ratios) * (ranges * ratio) ** (self.inputs - 1) for ratio in self.ratios)

    def joined(self) -> ps.Stream:
        """Return the query: the number of one row of each stream, for all rows with equal keys."""
        inputs = [
            ps.read.source(connector, time="ts", progress=ps.ordered(), name=f"joinable_{number}")
            for number, connector in enumerate(self.connectors)
        ]
        names = ["sequence", *(f"sequence_{number}" for number in range(2, self.inputs + 1))]
        return ps.join_all(inputs, "key", within=f"{self.seconds}s").select(**dict(zip(_COLUMNS, names, strict=False)))


def same(rows: Path, streams: Streams) -> bool:
    """Return whether published rows are the batch answer."""
    columns = _COLUMNS[: streams.inputs]
    with session() as connection:
        found_rows(connection, rows).create_view("found")
        return answer(streams).same(digest(connection, "found", columns))


@lru_cache(maxsize=8)
def answer(streams: Streams) -> Digest:
    """Return the digest of the answer of DuckDB."""
    names = [f"s{number}" for number in range(streams.inputs)]
    near = "".join(
        f" AND abs(epoch_us({name}.ts) - epoch_us(s0.ts)) <= {streams.seconds * 1_000_000}" for name in names[1:]
    )
    columns = ", ".join(f"{name}.sequence AS {column}" for name, column in zip(names, _COLUMNS, strict=False))
    others = "".join(f" JOIN {name} USING (key)" for name in names[1:])
    with session() as connection:
        for name, connector in zip(names, streams.connectors, strict=True):
            connection.register(name, connector.generate(0, streams.rows, ("key", "sequence", "ts")))
        select = f"(SELECT {columns} FROM s0{others} WHERE true{near})"
        return digest(connection, select, _COLUMNS[: streams.inputs])
