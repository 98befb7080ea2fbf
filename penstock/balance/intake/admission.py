"""Admission: how many rows an epoch takes in. Pure.

An epoch costs something fixed and something per row: what its tasks worked is put down to the rows, the rest is fixed.
While there is a backlog, epochs aim at a given length, but at least at three times the fixed cost, or it would eat the
throughput up. The first epoch starts processes and warms caches, so it never makes the next one smaller.

Back-pressure comes on top: while the buffers of sites are more than half full, an epoch takes in less, the less the
fuller they are, and never more than they have room for. It depends on nothing else, so it ends when they have drained.
Something is always taken in, for what waits in a buffer may wait for rows that are still to come.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

EPOCH_SECONDS = 0.5  # the length to aim at where none is given
FIRST_ROWS = 400_000
LEAST_ROWS = 10_000
MOST_ROWS = 8_000_000
MOST_GROWTH = 2
FIXED_COSTS = 3  # an epoch is at least so many times as long as its fixed cost
FREE_OCCUPANCY = 0.5  # buffers filled up to here slow nobody
LEAST_PART = 16  # of what an epoch would take in, or of what small buffers hold, full ones leave one row in so many


@dataclass(frozen=True)
class Admission:
    """`rows` is what the next epoch may take in; `warm`: a full epoch is over."""

    target_seconds: float
    rows: int = FIRST_ROWS
    warm: bool = False

    def after(self, rows_in: int, seconds: float, held: float, cost: float) -> Admission:
        """The admission after an epoch that took in `rows_in` rows and lasted `seconds`, `held` by its tasks for so
        long; these rows would `cost` so much time where no site is in the way of others."""
        if rows_in < self.rows // 2:
            return self  # it was not full, so it says nothing about speed
        fixed = max(0.0, seconds - held)
        budget = max(self.target_seconds, FIXED_COSTS * fixed) - fixed
        affordable = int(budget / max(cost / rows_in, 1e-9))
        least = LEAST_ROWS if self.warm else self.rows
        return replace(self, rows=max(least, min(affordable, self.rows * MOST_GROWTH, MOST_ROWS)), warm=True)

    def slowed(self, occupancy: float, room: int) -> int:
        """What the next epoch may take in when the fullest buffer of a site is filled to that part of its capacity, and
        all of them hold `room` rows when they are full."""
        return _slowed(self.rows, max(1, min(LEAST_ROWS, min(self.rows, room) // LEAST_PART)), occupancy, room)


@dataclass(frozen=True)
class FixedAdmission:
    """The same number of rows each time."""

    rows: int

    def after(self, rows_in: int, seconds: float, held: float, cost: float) -> FixedAdmission:
        return self

    def slowed(self, occupancy: float, room: int) -> int:
        """What the next epoch may take in; see above."""
        return _slowed(self.rows, max(1, self.rows // LEAST_PART), occupancy, room)


def _slowed(rows: int, least: int, occupancy: float, room: int) -> int:
    """All rows with buffers that are half full, the least with full ones, and in proportion between; but no more than
    would fill them."""
    free = max(0.0, 1 - occupancy)
    part = least + round(max(0, rows - least) * free / (1 - FREE_OCCUPANCY))
    return min(rows, part, max(least, round(room * free)))
