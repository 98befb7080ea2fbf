"""`active-disk`: `lazy-disk`, and a site with few results parks state so that productive groups can move there
(D-Cape, section 6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.balance.decisions import Decision
from penstock.balance.policies.lazy_disk import LazyDisk
from penstock.balance.policy import Learning
from penstock.balance.stats import FloatArray, RoundStats
from penstock.units import MEGABYTE


@dataclass(frozen=True)
class ActiveDisk(Learning):
    """While the sites hold about the same, their results per byte of active state are compared. If the best site has
    more than `apart` times as many as the worst (theta_f in the paper), the worst parks, although it has room: groups
    of other sites then move there, the productive ones first. `forced` is the bytes that are parked for this reason:
    never more than those by which the state of the query exceeds the memory of all sites (M_query - M_cluster)."""

    lazy: LazyDisk = field(default_factory=LazyDisk)
    apart: float = 2.0
    forced: int = 0
    name: str = "active-disk"

    def decide(self, stats: RoundStats) -> Sequence[Decision]:
        site = self._least_productive(stats)
        if site is None:
            return self.lazy.decide(stats)
        return [*self._forced(stats, site), *self.lazy.overflow.decide(stats, moving={site})]

    def after(self, stats: RoundStats) -> ActiveDisk:
        site = self._least_productive(stats)
        more = 0 if site is None else sum(decision.cost for decision in self._forced(stats, site))
        return replace(self, lazy=self.lazy.after(stats), forced=self._still_parked(stats) + more)

    def _least_productive(self, stats: RoundStats) -> int | None:
        """Return the site that must park so that productive groups can move there; None if there is none."""
        if not (stats.may_park and stats.memory and self.lazy.is_level(stats)):
            return None
        rates = results_per_byte(stats)
        worst = int(rates.argmin())
        apart = rates.max() > self.apart * rates[worst]
        return worst if apart and self._may_park(stats, worst) else None

    def _may_park(self, stats: RoundStats, site: int) -> bool:
        """Return whether a site may make such room: it need not park for itself, and would have no room for a clean-up
        afterwards. After less than a whole portion the sites would still be level, and nothing would move there."""
        held, overflow = float(stats.held[site]), self.lazy.overflow
        portion = overflow.victims.portion * held
        stays_full = held - portion >= overflow.clean_ups.room * stats.memory
        return not overflow.overflows(stats, site) and stays_full and self._excess(stats) >= portion

    def _forced(self, stats: RoundStats, site: int) -> list[Decision]:
        rates = results_per_byte(stats) * MEGABYTE
        best = int(rates.argmax())
        reason = f"site {site} produces {rates[site]:.3g} rows per MB of state, site {best} {rates[best]:.3g}"
        return self.lazy.overflow.victims.parks(stats, site, reason, most=self._excess(stats))

    def _excess(self, stats: RoundStats) -> float:
        """Return the bytes that may still be parked for the sake of others."""
        query = float(stats.loads.state_bytes.sum() + stats.loads.parked_bytes.sum())
        return query - stats.directory.sites * stats.memory - self._still_parked(stats)

    def _still_parked(self, stats: RoundStats) -> int:
        """Return the bytes parked for the sake of others, less what was cleaned up since."""
        return min(self.forced, int(stats.loads.parked_bytes.sum()))


def results_per_byte(stats: RoundStats) -> FloatArray:
    """Return the rows that each site produced in the round per byte of active state; 0 where it has none."""
    made = stats.of_sites(stats.loads.output)
    return np.divide(made, stats.held, out=np.zeros(len(made)), where=stats.held > 0)
