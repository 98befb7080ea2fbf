"""The cost of moving state. Pure.

Where state is read in place, a move changes only the directory. Where each host fetches what its sites need, a site
waits for the bytes of a group that moved to it; how long is measured.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.balance.stats import FloatArray

PRIOR_BYTES = 64e6  # weight of the assumption below, in bytes: so many measured bytes count as much
PRIOR_SPEED = 100e6  # bytes per second that a host is assumed to fetch, before anything is measured
KEPT = 0.9  # part of what was measured before that still counts after an epoch in which something is fetched


@dataclass(frozen=True)
class MoveCosts:
    """The cost of moves, in seconds per round: moves cost time once, and the gain lasts for `rounds` rounds. A move
    takes `seconds_per_move`, and its receiver waits `seconds_per_byte` for each byte of state."""

    rounds: float = 6.0
    seconds_per_move: float = 0.001
    seconds_per_byte: float = 0.0

    def of(self, state: FloatArray) -> FloatArray:
        """Return the cost of moving each of these groups by itself, given their bytes of state."""
        return np.asarray((self.seconds_per_move + state * self.seconds_per_byte) / self.rounds)

    def of_plan(self, moves: int, received: FloatArray) -> float:
        """Return the cost of so many moves, given the bytes of state that each site receives. Sites fetch at the same
        time, so the epoch waits for the site that receives most."""
        waiting = float(received.max(initial=0.0)) * self.seconds_per_byte
        return (self.seconds_per_move * moves + waiting) / self.rounds


@dataclass(frozen=True)
class FetchTimes:
    """The time that sites wait for state that is fetched. Invariant: `waited` seconds for `fetched` bytes, of recent
    epochs; both are 0 if state is read in place."""

    waited: float = 0.0
    fetched: float = 0.0

    @staticmethod
    def assumed() -> FetchTimes:
        """Return what is assumed before anything is measured."""
        return FetchTimes(PRIOR_BYTES / PRIOR_SPEED, PRIOR_BYTES)

    def after(self, waited: float, fetched: int) -> FetchTimes:
        """Add an epoch in which sites waited so long in total for so many bytes. Epochs without bytes tell nothing."""
        if not fetched:
            return self
        return FetchTimes(KEPT * self.waited + waited, KEPT * self.fetched + fetched)

    @property
    def seconds_per_byte(self) -> float:
        """Return the seconds that a site waits per byte of state that moves to it."""
        return self.waited / self.fetched if self.fetched else 0.0
