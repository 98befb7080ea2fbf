"""What is seen of a run whose state exceeds memory: its epochs, before and after the end of the input. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import median

Points = list[tuple[float, float]]


@dataclass(frozen=True)
class OverflowEpoch:
    """An epoch: rows in and results, and the bytes of active and of parked state, and the seconds, of each site.
    `whole` is the processor time of the driver and all sites together, `length` what the epoch took by the clock of the
    run; `moves` and `parks` were decided after it, and so many changes
    `refused`."""

    rows_in: int
    results: int
    held: tuple[int, ...]
    parked: tuple[int, ...]
    seconds: tuple[float, ...]
    whole: float
    length: float
    moves: int = 0
    parks: int = 0
    refused: int = 0


@dataclass(frozen=True)
class OverflowSeen:
    """A run. `equal`: its results were the batch answer."""

    epochs: tuple[OverflowEpoch, ...]
    equal: bool

    @property
    def normal(self) -> tuple[OverflowEpoch, ...]:
        """Return the epochs up to the last one with input; what comes after them is the clean-up."""
        last = max((number for number, epoch in enumerate(self.epochs) if epoch.rows_in), default=-1)
        return self.epochs[: last + 1]

    @property
    def clean_up(self) -> tuple[OverflowEpoch, ...]:
        """Return the epochs after the end of the input."""
        return self.epochs[len(self.normal) :]

    @property
    def results_before(self) -> int:
        """Return the results that there were when the input ended."""
        return sum(epoch.results for epoch in self.normal)

    @property
    def results_owed(self) -> int:
        """Return the results that only the clean-up produced."""
        return sum(epoch.results for epoch in self.clean_up)

    @property
    def clean_up_seconds(self) -> float:
        """Return how long the clean-up takes if each site has a processor: every epoch as long as its slowest site."""
        return sum(max(epoch.seconds) for epoch in self.clean_up)

    @property
    def clean_up_work(self) -> float:
        """Return the processor time of all sites in the clean-up."""
        return sum(sum(epoch.seconds) for epoch in self.clean_up)

    @property
    def work(self) -> float:
        """Return the processor time of driver and sites up to the end of the input."""
        return sum(epoch.whole for epoch in self.normal)

    @property
    def moves(self) -> int:
        return sum(epoch.moves for epoch in self.epochs)

    @property
    def parks(self) -> int:
        return sum(epoch.parks for epoch in self.epochs)

    @property
    def pushes(self) -> int:
        """Return how many times state was parked: a push is the parks of one round."""
        return sum(epoch.parks > 0 for epoch in self.epochs)

    @property
    def most_parked(self) -> int:
        return max((sum(epoch.parked) for epoch in self.epochs), default=0)

    def output(self) -> Points:
        """Return (epoch, millions of results so far), up to the end of the input."""
        return _numbered(results / 1e6 for results in accumulate(epoch.results for epoch in self.normal))

    def output_by_work(self) -> Points:
        """Return (seconds of processor time, millions of results so far), up to the end of the input."""
        worked = accumulate(epoch.whole for epoch in self.normal)
        return [(seconds, results) for seconds, (_, results) in zip(worked, self.output(), strict=True)]

    def memory(self, site: int | None = None) -> Points:
        """Return (epoch, megabytes of active state) of a site, or of all. The epoch that reads the end of the input is
        left out, because after it no state is needed."""
        held = (sum(epoch.held) if site is None else epoch.held[site] for epoch in self.normal[:-1])
        return _numbered(size / 1e6 for size in held)


def _numbered(values: Iterable[float]) -> Points:
    return [(float(number), float(value)) for number, value in enumerate(values, start=1)]


def in_the_middle(turns: Sequence[OverflowSeen]) -> OverflowSeen:
    """Return the turn with the median clean-up. What was decided, and hence the results, is the same in all turns."""
    middle = median(turn.clean_up_seconds for turn in turns)
    return min(turns, key=lambda turn: abs(turn.clean_up_seconds - middle))
