"""Overflow: sites that hold more active state than their memory park some, and clean up when they have room. Pure.

Parking begins above the memory of a site and ends well below it; a clean-up must leave a site still further below. So a
group that was parked comes back only after the state of its site has shrunk, and is not parked again before it has
grown: nothing goes back and forth.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from penstock.balance.decisions import CleanUp, Decision
from penstock.balance.sizes import full_reason, written
from penstock.balance.stats import IntArray, RoundStats
from penstock.balance.victims import Victims
from penstock.units import MEGABYTE


@dataclass(frozen=True)
class CleanUps:
    """The choice of parked groups to clean up. A site has room for a group if its active state with it is at most
    `room` of its memory. In a round a site cleans up at most `most_bytes` of parked state, or one group, because that
    takes time from new rows."""

    room: float = 0.5
    most_bytes: int = 64 * MEGABYTE

    def at_site(self, stats: RoundStats, site: int) -> list[Decision]:
        """Return the decisions to clean up at a site, the group with the highest productivity first: it uses the room
        best. Of equals, mostly groups without rows, the smallest comes first. Without a limit of memory, all have
        room."""
        made, held, freed = [], float(stats.held[site]), 0
        most = self.room * stats.memory if stats.memory else np.inf
        for place in self.order(stats, site):
            size = int(stats.loads.parked_bytes[place])
            if held + size > most or (freed and freed + size > self.most_bytes):
                continue
            held, freed = held + size, freed + size
            reason = f"site {site} has room: it holds {written(stats.held[site])} of active state"
            made.append(Decision(CleanUp(stats.directory.groups[place]), reason, cost=size))
        return made

    @staticmethod
    def order(stats: RoundStats, site: int) -> IntArray:
        """Return the places of the groups of a site with parked state, the first to be cleaned up first."""
        places = np.flatnonzero((stats.homes == site) & (stats.loads.parked_bytes > 0))
        keys = (stats.loads.parked_bytes[places], -stats.productivity[places])
        return np.asarray(places[np.lexsort(keys)])


@dataclass(frozen=True)
class Overflow:
    """What sites do by themselves if state exceeds memory. A site parks if its active state is more than `full` of its
    memory (theta_m in D-Cape). What it keeps should be more than the room for clean-ups: `full` times the rest of the
    portion of `victims`."""

    full: float = 1.0
    victims: Victims = field(default_factory=Victims)
    clean_ups: CleanUps = field(default_factory=CleanUps)

    def decide(self, stats: RoundStats, moving: Collection[int] = ()) -> list[Decision]:
        """Return parks at sites that are too full, and clean-ups at sites with room. A site in `moving` gives or
        receives state in this round, and does neither."""
        made = []
        for site in range(stats.directory.sites):
            if site in moving:
                continue
            made += self._parks(stats, site) if self.overflows(stats, site) else self.clean_ups.at_site(stats, site)
        return made

    def overflows(self, stats: RoundStats, site: int) -> bool:
        """Return whether a site holds more active state than it may."""
        return stats.memory > 0 and bool(stats.held[site] > self.full * stats.memory)

    def _parks(self, stats: RoundStats, site: int) -> list[Decision]:
        if not stats.may_park:
            return []
        return self.victims.parks(stats, site, full_reason(site, stats.held[site], stats.memory))
