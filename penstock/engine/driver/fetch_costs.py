"""What it costs on this deployment that state moves to another site, as the sites report it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from penstock.balance.move_costs import FetchTimes
from penstock.balance.stats import RoundStats
from penstock.engine.wire.job import RouteReport, SiteReport
from penstock.settings import INLINE, Settings

FETCH = "fetch"  # the step of a site in which it waits for state to be fetched


class FetchCosts:
    """Measures how long sites wait for state that is fetched. Invariant: `_times` is None if nothing has to be fetched
    after a move: hosts have no caches, or there is one host only, whose sites share one."""

    def __init__(self, settings: Settings) -> None:
        one_host = settings.master in (INLINE, "local") or settings.master.startswith("local[")
        self._times = FetchTimes.assumed() if settings.cache and not one_host else None

    @property
    def seconds_per_byte(self) -> float:
        """Return the seconds that a site waits per byte of state that moves to it; 0 if state is read in place."""
        return self._times.seconds_per_byte if self._times else 0.0

    def observe(self, reports: Sequence[RouteReport | SiteReport]) -> None:
        """Add what the sites have fetched in an epoch."""
        sites = [report for report in reports if isinstance(report, SiteReport)]
        if self._times:
            self._times = self._times.after(sum(map(_waited, sites)), sum(report.fetched for report in sites))

    def noted(self, stats: RoundStats, subquery: int, reports: Sequence[RouteReport | SiteReport]) -> RoundStats:
        """Return the statistics of an epoch with the cost of moves, and without the time that sites waited for state in
        the time that they were busy: a site that has just received a group is not slow."""
        sites = [report for report in reports if isinstance(report, SiteReport) and report.subquery == subquery]
        waited = np.asarray([_waited(report) for report in sorted(sites, key=lambda report: report.site)])
        busy = np.maximum(stats.busy - waited, 0.0)
        return replace(stats, busy=busy, seconds_per_byte=self.seconds_per_byte)


def _waited(report: SiteReport) -> float:
    return report.time.steps.get(FETCH, 0.0)
