"""Victims: which groups of a site are parked if it holds too much state (D-Cape, section 4.3). Pure.

First come groups without rows for a long time, then those with the fewest results per byte of state: what stays active
should produce as much as possible, and what it produces need not be produced by a clean-up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.balance.decisions import Decision, Park
from penstock.balance.stats import BoolArray, IntArray, RoundStats

SMALL = 0.1  # part of the mean active state of a site's groups: parking less relieves nothing, but adds a generation


@dataclass(frozen=True)
class Victims:
    """The choice of victims. At most `portion` of a site's active state is parked at a time, or one group (k in the
    paper). A group is inactive if the last epoch with a row for it is at least `inactive` epochs ago (theta_t).
    `productive_first` reverses the order of productivity, for experiments."""

    portion: float = 0.3
    inactive: int = 100
    productive_first: bool = False

    def places(self, stats: RoundStats, site: int, most: float = np.inf) -> IntArray:
        """Return the places of the groups to park at a site, the first victim first: together at most the portion, or
        one group, and in any case at most `most` bytes."""
        order = self.order(stats, site)
        parked = np.cumsum(stats.loads.state_bytes[order])
        count = max(1, int((parked <= self.portion * stats.held[site]).sum()))
        return order[: min(count, int((parked <= most).sum()))]

    def order(self, stats: RoundStats, site: int) -> IntArray:
        """Return the places of all groups of a site that may be parked, the first victim first: inactive ones by their
        last use, then the others by productivity. Of equals, the larger comes first."""
        places = np.flatnonzero(self._eligible(stats, site))
        last_used, worth = stats.loads.last_used[places], stats.productivity[places]
        # No row has arrived later than the last use of any group, so time is counted up to there.
        unused = int(stats.loads.last_used.max(initial=0)) - last_used >= self.inactive
        rank = -worth if self.productive_first else worth
        keys = (-stats.loads.state_bytes[places], rank, np.where(unused, last_used, 0), ~unused)
        return np.asarray(places[np.lexsort(keys)])

    @staticmethod
    def _eligible(stats: RoundStats, site: int) -> BoolArray:
        """Return a mask of the groups of a site that may be parked: active state, no pending row, no spread key."""
        here, size = stats.homes == site, stats.loads.state_bytes
        may = here & (size > 0) & (stats.loads.pending == 0)
        for cells in stats.directory.spread:
            may[stats.directory.place_at(cells.hash)] = False
        mean = float(size[here].mean()) if here.any() else 0.0
        return np.asarray(may & (size >= SMALL * mean), np.bool_)

    def parks(self, stats: RoundStats, site: int, reason: str, most: float = np.inf) -> list[Decision]:
        """Return the decisions to park these groups."""
        return [
            Decision(Park(stats.directory.groups[place]), reason, cost=int(stats.loads.state_bytes[place]))
            for place in self.places(stats, site, most)
        ]
