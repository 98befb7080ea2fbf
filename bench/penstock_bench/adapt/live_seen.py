"""What was seen of a join whose rows arrive while it runs, and what follows from it. Pure.

The production delay of a result is the time from the arrival of the newer of its two rows until it is published.
Overhead is the time that tasks of sites spend on anything but rows: every site pays it in every epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from penstock_bench.adapt.timeline import Timeline


@dataclass(frozen=True)
class Effort:
    """What the tasks of the sites did in an epoch that ended at `at`: how long they ran in all, and how much of that
    they worked on rows."""

    at: float
    seconds: float
    worked: float

    @property
    def overhead(self) -> float:
        return self.seconds - self.worked


@dataclass(frozen=True)
class Produced:
    """`results` were published `delay` seconds after the newer of their rows had arrived, at `arrived`."""

    arrived: float
    delay: float
    results: int


@dataclass(frozen=True)
class LiveSeen:
    """Times are seconds since rows began to arrive; `cpu_seconds` are those of all processes."""

    timeline: Timeline
    efforts: tuple[Effort, ...]
    produced: tuple[Produced, ...]
    cpu_seconds: float

    def overhead(self, begin: float = 0.0, end: float = float("inf")) -> float:
        """Seconds of all sites together."""
        return sum(effort.overhead for effort in self.efforts if begin <= effort.at < end)

    def sites(self, begin: float, end: float) -> float:
        """How many there were on average over the epochs of a time."""
        seen = [epoch.sites for epoch in self.timeline.epochs if begin <= epoch.at < end]
        return sum(seen) / len(seen) if seen else 0.0

    def done(self, until: float) -> int:
        """Rows that sites had worked through."""
        return sum(epoch.done for epoch in self.timeline.epochs if epoch.at <= until)

    def arriving(self, begin: float, end: float) -> list[Produced]:
        """What came of rows that arrived in a time."""
        return [one for one in self.produced if begin <= one.arrived < end]


def mean_delay(produced: Iterable[Produced]) -> float | None:
    """None where there are no results."""
    seen = [(one.delay, one.results) for one in produced]
    total = sum(results for _, results in seen)
    return sum(delay * results for delay, results in seen) / total if total else None


def delay_below(produced: Sequence[Produced], part: float) -> float | None:
    """The delay that `part` of the results are not above; None where there are none."""
    ordered, left = sorted(produced, key=lambda one: one.delay), part * sum(one.results for one in produced)
    for one in ordered:
        left -= one.results
        if left <= 0:
            return one.delay
    return None
