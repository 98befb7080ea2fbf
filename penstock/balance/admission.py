"""Admission: how many rows an epoch takes in. Pure.

An epoch costs something fixed and something per row: what its tasks worked is put down to the rows, the rest is fixed.
While there is a backlog, epochs aim at a given length, but at least at three times the fixed cost, or it would eat the
throughput up. The first epoch starts processes and warms caches, so it never makes the next one smaller.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

EPOCH_SECONDS = 0.5  # the length to aim at where none is given
FIRST_ROWS = 400_000
LEAST_ROWS = 10_000
MOST_ROWS = 8_000_000
MOST_GROWTH = 2
FIXED_COSTS = 3  # an epoch is at least so many times as long as its fixed cost


@dataclass(frozen=True)
class Admission:
    """`rows` is what the next epoch may take in; `warm`: a full epoch is over."""

    target_seconds: float
    rows: int = FIRST_ROWS
    warm: bool = False

    def after(self, rows_in: int, seconds: float, busy: float) -> Admission:
        """The admission after an epoch that took `rows_in` rows and `seconds`, `busy` of them in its tasks."""
        if rows_in < self.rows // 2:
            return self  # it was not full, so it says nothing about speed
        fixed = max(0.0, seconds - busy)
        budget = max(self.target_seconds, FIXED_COSTS * fixed) - fixed
        affordable = int(budget / max(busy / rows_in, 1e-9))
        least = LEAST_ROWS if self.warm else self.rows
        return replace(self, rows=max(least, min(affordable, self.rows * MOST_GROWTH, MOST_ROWS)), warm=True)


@dataclass(frozen=True)
class FixedAdmission:
    """The same number of rows each time."""

    rows: int

    def after(self, rows_in: int, seconds: float, busy: float) -> FixedAdmission:
        return self
