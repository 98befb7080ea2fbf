"""What was seen of a run from outside: its epochs, by the clock, and what was decided meanwhile. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class EpochSeen:
    """An epoch ended at `at`, and had taken `seconds`. `done` are the rows that its sites worked through, `backlog`
    those that wait, and `sites` how many there are."""

    at: float
    seconds: float
    rows_in: int
    rows_out: int
    done: int
    backlog: int
    sites: int


@dataclass(frozen=True)
class ChangeSeen:
    at: float
    what: str
    why: str

    @property
    def is_move(self) -> bool:
        return self.what.startswith("move ")


@dataclass(frozen=True)
class Timeline:
    """`at` counts in seconds from the end of the first epoch, which starts processes. `cpu` is the part of the cores
    that was busy, `equal` whether the result was the batch answer."""

    epochs: tuple[EpochSeen, ...]
    changes: tuple[ChangeSeen, ...]
    refused: int
    cpu: float
    equal: bool

    @property
    def seconds(self) -> float:
        return self.epochs[-1].at if self.epochs else 0.0

    @property
    def input_seconds(self) -> float:
        """Until when rows came in: after that a slow site is left alone with what it has pending. Where all came in the
        first epoch, until the end."""
        return max((epoch.at for epoch in self.epochs if epoch.rows_in), default=self.seconds)

    def rate(self, begin: float, end: float) -> float:
        """Rows that were worked through per second between two times; epochs at the borders count in part."""
        return sum(epoch.done * _part(epoch, begin, end) for epoch in self.epochs) / (end - begin)

    def curve(self, width: float) -> list[tuple[float, float]]:
        """(time, rate) over intervals of a width."""
        count = int(self.seconds / width)
        return [((n + 0.5) * width, self.rate(n * width, (n + 1) * width)) for n in range(count)]

    @property
    def splits(self) -> int:
        return sum(change.what.startswith("split ") for change in self.changes)

    def moves(self, begin: float = 0.0) -> list[ChangeSeen]:
        return [change for change in self.changes if change.is_move and change.at >= begin]


def _part(epoch: EpochSeen, begin: float, end: float) -> float:
    """The part of an epoch that lies between two times."""
    first, last = max(begin, epoch.at - epoch.seconds), min(end, epoch.at)
    return max(0.0, last - first) / epoch.seconds if epoch.seconds > 0 else 0.0


def recovery(curve: Iterable[tuple[float, float]], begin: float, rate: float, lasting: int = 2) -> float | None:
    """How long after `begin` a curve that has fallen below a rate is back at it, for at least so many points; 0 if it
    never falls, None if it does not come back. It may fall some time after `begin`: buffers fill first."""
    later = [(at, value) for at, value in curve if at >= begin]
    fallen = next((n for n, (_, value) in enumerate(later) if value < rate), None)
    if fallen is None:
        return 0.0
    held: list[float] = []
    for at, value in later[fallen:]:
        held = [*held, at] if value >= rate else []
        if len(held) == lasting:
            return held[0] - begin
    return None
