"""Two streams that arrive at a rate that changes: a file of each in every period, made visible by a rename. The keys of
the first may be skewed, those of the second are not: a key that is frequent in both would have too many results."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.connectors.generator.calls import BModel, Uniform
from penstock_bench.rows.narrow import NARROW_SCHEMA

PERIOD = 0.1  # seconds
STREAMS = ("x", "y")
KEYS = 100_000

Clock = Callable[[], float]


@dataclass(frozen=True)
class Phase:
    """For so many seconds, `rate` rows a second arrive, half of them of each stream."""

    seconds: float
    rate: float

    @property
    def periods(self) -> int:
        return max(1, round(self.seconds / PERIOD))


@dataclass(frozen=True)
class Arrivals:
    """The phases, one after the other. `bias` is that of the b-model by which keys of the first stream are drawn."""

    phases: tuple[Phase, ...]
    bias: float = 0.7

    def rates(self) -> list[float]:
        """That of each period."""
        return [phase.rate for phase in self.phases for _ in range(phase.periods)]

    def rows_until(self, period: int) -> int:
        """Of both streams, in all periods before one."""
        return sum(len(STREAMS) * _rows_of(rate) for rate in self.rates()[:period])

    def borders(self) -> list[tuple[float, float]]:
        """The begin and the end of each phase, in seconds."""
        ends = np.cumsum([phase.periods for phase in self.phases]) * PERIOD
        return list(zip([0.0, *ends[:-1].tolist()], ends.tolist(), strict=True))

    def tables(self, stream: str) -> Iterator[pa.Table]:
        """The rows of each period: their times lie in it, if the first begins at 0. They depend on nothing else."""
        place = STREAMS.index(stream)
        draw, skew = np.random.default_rng(place), Uniform() if place else BModel(self.bias)
        for number, rate in enumerate(self.rates()):
            count, first = _rows_of(rate), round(number * PERIOD * 1e6)
            times = np.sort(draw.integers(first, first + round(PERIOD * 1e6), count)).astype("datetime64[us]")
            keys = skew.pick(draw.random(count), KEYS)
            yield pa.table([times, keys, draw.uniform(0.0, 100.0, count)], schema=NARROW_SCHEMA)


def _rows_of(rate: float) -> int:
    """Of one stream in one period."""
    return max(1, round(rate * PERIOD / len(STREAMS)))


def prepared(arrivals: Arrivals, folder: Path) -> list[list[Path]]:
    """The files of each period, where nobody looks yet."""
    return [list(files) for files in zip(*(_written(arrivals, folder, stream) for stream in STREAMS), strict=True)]


def _written(arrivals: Arrivals, folder: Path, stream: str) -> Iterator[Path]:
    (folder / stream).mkdir(parents=True)
    for number, table in enumerate(arrivals.tables(stream)):
        path = folder / stream / f"{number:06d}.parquet"
        pq.write_table(table, path)
        yield path


def feed(files: Sequence[Sequence[Path]], into: Path, clock: Clock = time.time) -> list[float]:
    """Move the files of a period to where they are seen once the period is over; gives the moment of each."""
    began, moments = clock(), []
    for number, pair in enumerate(files):
        while (left := began + (number + 1) * PERIOD - clock()) > 0:
            time.sleep(left)
        moments.append(clock())
        for file in pair:
            os.rename(file, into / file.parent.name / file.name)
    return moments
