"""Admission: how many rows an epoch takes in. Pure.

While there is a backlog, epochs aim at a given length: the next one takes what the last one's speed would do in that
time, growing at most fourfold at a time. The first epoch starts processes and warms caches: it says nothing of speed.
"""

from __future__ import annotations

from dataclasses import dataclass

FIRST_ROWS = 250_000
LEAST_ROWS = 10_000
MOST_GROWTH = 4


@dataclass(frozen=True)
class Admission:
    """`rows` is what the next epoch may take in; `warm`: an epoch that was full has been seen."""

    target_seconds: float
    rows: int = FIRST_ROWS
    warm: bool = False

    def after(self, rows_in: int, seconds: float) -> Admission:
        """The admission after an epoch that took `rows_in` rows and `seconds`."""
        if rows_in < self.rows // 2:
            return self  # it was not full, so it says nothing about speed
        affordable = int(rows_in * self.target_seconds / max(seconds, 1e-3))
        least = LEAST_ROWS if self.warm else self.rows
        return Admission(self.target_seconds, max(least, min(affordable, self.rows * MOST_GROWTH)), warm=True)


@dataclass(frozen=True)
class FixedAdmission:
    """The same number of rows each time."""

    rows: int

    def after(self, rows_in: int, seconds: float) -> FixedAdmission:
        return self
