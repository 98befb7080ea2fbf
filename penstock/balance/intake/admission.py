"""Admission control: how many rows an epoch takes in. Pure.

An epoch has a fixed cost and a cost per row: the time of its tasks counts as the cost of rows, the rest is fixed. While
there is a backlog, epochs aim at a given length, but at least at three times the fixed cost, which would otherwise
limit the throughput. The first epoch starts processes and warms caches, so it never makes the next one smaller.

Back-pressure reduces this further: while buffers of sites are more than half full, an epoch takes in less, the less the
fuller they are, and never more than they have room for. It depends on nothing else, so it ends when the buffers have
drained. Some rows are always taken in, because rows in a buffer may wait for rows still to come.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

EPOCH_SECONDS = 0.5  # the default target length of an epoch
FIRST_ROWS = 400_000
LEAST_ROWS = 10_000
MOST_ROWS = 8_000_000
MOST_GROWTH = 2
FIXED_COSTS = 3  # an epoch is at least so many times as long as its fixed cost
FREE_OCCUPANCY = 0.5  # buffers filled up to here cause no back-pressure
LEAST_PART = 16  # with full buffers an epoch takes in one in so many of its rows, or of those that small buffers hold


@dataclass(frozen=True)
class Admission:
    """Admission by measured speed. `rows` is the limit of the next epoch; `warm` is True after the first full epoch."""

    target_seconds: float
    rows: int = FIRST_ROWS
    warm: bool = False

    def after(self, rows_in: int, seconds: float, held: float, cost: float) -> Admission:
        """Return the admission after an epoch of `rows_in` rows and `seconds`, of which the tasks took `held`. `cost`
        is the seconds that these rows would take if no site delayed others."""
        if rows_in < self.rows // 2:
            return self  # the epoch was not full, so it says nothing about speed
        fixed = max(0.0, seconds - held)
        budget = max(self.target_seconds, FIXED_COSTS * fixed) - fixed
        affordable = int(budget / max(cost / rows_in, 1e-9))
        least = LEAST_ROWS if self.warm else self.rows
        return replace(self, rows=max(least, min(affordable, self.rows * MOST_GROWTH, MOST_ROWS)), warm=True)

    def slowed(self, occupancy: float, room: int) -> int:
        """Return the limit of the next epoch when the fullest buffer of a site is filled to the fraction `occupancy`,
        and all buffers together hold `room` rows when full."""
        return _slowed(self.rows, max(1, min(LEAST_ROWS, min(self.rows, room) // LEAST_PART)), occupancy, room)


@dataclass(frozen=True)
class FixedAdmission:
    """Admission of the same number of rows in every epoch."""

    rows: int

    def after(self, rows_in: int, seconds: float, held: float, cost: float) -> FixedAdmission:
        """Return the same admission, whatever the epoch measured."""
        return self

    def slowed(self, occupancy: float, room: int) -> int:
        """Return the limit of the next epoch, as `Admission.slowed` does."""
        return _slowed(self.rows, max(1, self.rows // LEAST_PART), occupancy, room)


def _slowed(rows: int, least: int, occupancy: float, room: int) -> int:
    """Return all `rows` while buffers are at most half full, `least` when they are full, and in proportion between; but
    never more than the free room, unless that is below `least`."""
    free = max(0.0, 1 - occupancy)
    part = least + round(max(0, rows - least) * free / (1 - FREE_OCCUPANCY))
    return min(rows, part, max(least, round(room * free)))
