"""The points of `latency`: for each system its maximum rate, and then, in turns, its delays at shares of that."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from penstock.errors import PenstockError
from penstock_bench.experiments.arrivals import (
    delays,
    feed,
    moments_of_windows,
    prepared,
    published_by_penstock,
    published_by_spark,
)
from penstock_bench.experiments.experiment import Setting
from penstock_bench.experiments.live_run import PERIOD
from penstock_bench.experiments.live_turn import Turn
from penstock_bench.experiments.part import Part

PUBLISHED: dict[str, Callable[[Path], Iterable[tuple[float, Path]]]] = {
    "penstock": published_by_penstock,
    "spark": published_by_spark,
}


@dataclass(frozen=True)
class Size:
    """`backlog` rows find the maximum rate; a point lasts `seconds`, of which the first `skipped` do not count."""

    backlog: int = 8_000_000
    seconds: float = 20.0
    skipped: float = 3.0


@dataclass(frozen=True)
class Point:
    """A system at a rate, which is `share` of the maximum of system `of`. Delays in seconds, in order of time."""

    system: str
    of: str
    share: float
    rate: float
    delays: tuple[float, ...]
    equal: bool

    def percentile(self, part: float) -> float:
        return float(np.percentile(self.delays, part))


@dataclass(frozen=True)
class Followers:
    """The systems, each in a process that stays."""

    setting: Setting
    size: Size
    folder: Path
    parts: Mapping[str, Part]

    def maximum(self, system: str) -> float:
        """Rows per second where all files are there already; the first of two times is a warm-up."""
        rates = [self._rate(system) for _ in range(2)]
        self.setting.tell(f"{system}: {rates[-1]:,.0f} rows/s at most")
        return rates[-1]

    def _rate(self, system: str) -> float:
        with self._turn(system) as turn:
            turn.rows.rmdir()
            prepared(turn.rows, self.size.backlog / self.size.seconds, self.size.seconds)
            turn.begin()
            seconds = turn.until_through()
            turn.end()
            if not turn.equal():
                raise PenstockError(f"{system} gave a wrong answer", detail="a backlog of all files at once")
        return self.size.backlog / seconds

    def point(self, system: str, of: str, share: float, maximum: float) -> Point:
        """The delays of a system at a share of a maximum rate."""
        with self._turn(system) as turn:
            files = prepared(turn.folder / "hidden", share * maximum, self.size.seconds)
            turn.begin()
            arrived = feed(files, turn.rows)
            turn.until_through()
            turn.end()
            published = moments_of_windows(PUBLISHED[system](turn.results))
            equal = turn.equal()
        taken = delays(arrived, published, round(self.size.skipped * 1e6 / PERIOD))
        if not taken:
            raise PenstockError(f"{system} published no window", detail=f"{len(arrived)} files arrived")
        point = Point(system, of, share, share * maximum, tuple(taken), equal)
        self.setting.tell(f"{system} at {point.rate:,.0f} rows/s: {point.percentile(99):.3f} s at the 99th percentile")
        return point

    @contextmanager
    def _turn(self, system: str) -> Iterator[Turn]:
        folder = self.folder / "turn"
        (folder / "rows").mkdir(parents=True)
        try:
            yield Turn(self.parts[system], system, folder, self.setting.master, self.setting.cores)
        finally:
            shutil.rmtree(folder)
