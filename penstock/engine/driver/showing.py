"""The status of subqueries: of their sites after every epoch, and of their groups if sites reported statistics."""

from __future__ import annotations

import numpy as np

from penstock.balance.stats import RoundStats
from penstock.control.status import GroupStatus, SiteStatus, SubqueryStatus
from penstock.engine.wire.job import LastEpoch
from penstock.plan.explain.operator import operator_lines
from penstock.plan.program import Subquery
from penstock.state.model import SubqueryState
from penstock.state.runs import about_bytes

HOTTEST = 256  # groups in the status


def title(subquery: Subquery) -> str:
    """Return the name of a subquery that users see."""
    return next(iter(operator_lines(subquery.operator)))


def subquery_status(subquery: Subquery, stats: RoundStats) -> SubqueryStatus:
    """Return the status of a subquery from the statistics of its sites and groups."""
    return SubqueryStatus(title(subquery), _sites(stats), hottest(stats), stats.capacity, len(stats.directory.spread))


def _sites(stats: RoundStats) -> tuple[SiteStatus, ...]:
    rows, state = stats.of_sites(stats.loads.rows) + stats.cells.rows, stats.of_sites(stats.loads.state_bytes)
    parked = stats.of_sites(stats.loads.parked_bytes)
    groups = np.bincount(stats.homes, minlength=stats.directory.sites)
    return tuple(
        SiteStatus(
            rows_per_second=float(rows[site] / stats.seconds),
            utilisation=float(stats.utilisation[site]),
            backlog=float(stats.backlog[site]),
            state_bytes=int(state[site]),
            groups=int(groups[site]),
            output_per_second=float(stats.output[site] / stats.seconds),
            delay=float(stats.site_delay[site]),
            used_bytes=memory.used,
            resident_bytes=memory.resident,
            memory_limit=memory.limit,
            parked_bytes=int(parked[site]),
        )
        for site, memory in enumerate(stats.site_memory)
    )


def untold_status(subquery: Subquery, state: SubqueryState, last: LastEpoch, capacity: int) -> SubqueryStatus:
    """Return the status of a subquery from the reports that sites make in every epoch anyway, without groups. All rates
    are 0 if no epoch has run yet."""
    reports = {report.site: report for report in last.reports if report.subquery == subquery.number}
    share = max((report.time.seconds for report in reports.values()), default=0.0) + last.rest
    groups = np.bincount(state.directory.home_of, minlength=state.directory.sites)
    sites = tuple(
        SiteStatus(
            rows_per_second=reports[site].rows_in / last.seconds if site in reports else 0.0,
            utilisation=_part(reports[site].time.seconds, share) if site in reports else 0.0,
            backlog=float(reports[site].backlog) if site in reports else 0.0,
            state_bytes=about_bytes((*held.slices, *held.active), state.directory.sites),
            groups=int(groups[site]),
            used_bytes=about_bytes(held.needed_slices(), state.directory.sites),
            parked_bytes=about_bytes(held.parked_slices(), state.directory.sites),
        )
        for site, held in enumerate(state.sites)
    )
    return SubqueryStatus(title(subquery), sites, capacity=capacity, spread_keys=len(state.directory.spread))


def hottest(stats: RoundStats) -> tuple[GroupStatus, ...]:
    """Return the groups with most work, then those with most pending rows, at most `HOTTEST`."""
    loads, seconds = stats.loads, stats.seconds
    order = np.lexsort((-loads.state_bytes, -loads.pending, -loads.seconds))[:HOTTEST]
    return tuple(
        GroupStatus(
            group=str(stats.directory.groups[place]),
            site=int(stats.homes[place]),
            rows_per_second=float(loads.rows[place] / seconds),
            utilisation=_part(loads.seconds[place], stats.share[stats.homes[place]]),
            pending=int(loads.pending[place]),
            state_bytes=int(loads.state_bytes[place]),
            output_per_second=float(loads.output[place] / seconds),
            pending_bytes=int(loads.pending_bytes[place]),
            held_bytes=int(loads.held_bytes[place]),
            last_used=int(loads.last_used[place]),
            parked_bytes=int(loads.parked_bytes[place]),
        )
        for place in order.tolist()
    )


def _part(of: float, whole: float) -> float:
    return min(1.0, float(of / whole)) if whole else 0.0
