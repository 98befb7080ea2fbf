"""Summaries of an epoch's reports: how long its tasks took and how fast sites could have been, for admission; and keys
of joins with very many result rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean

from penstock.balance.flushing import Flushing
from penstock.clock import Stopwatch
from penstock.engine.wire.job import RouteReport, SiteReport
from penstock.events import EpochTimed, Event, JoinExplodes, TaskTimed

Reports = Sequence[RouteReport | SiteReport]


def held_seconds(reports: Reports) -> float:
    """Return about how many seconds the tasks of an epoch took: each level takes as long as its slowest site."""
    return _routing(reports) + sum(max(site.time.seconds for site in level) for level in _levels(reports))


def fastest_seconds(reports: Reports) -> float:
    """Return how many seconds the tasks would have taken if every site were as fast as the fastest of its level, and
    had done all rows that arrive on average."""
    return _routing(reports) + sum(_at_the_fastest(level) for level in _levels(reports))


def _at_the_fastest(level: Sequence[SiteReport]) -> float:
    """Return the seconds of a level if all of its sites were as fast as the fastest."""
    rows = fmean(site.rows_in for site in level)
    costs = [site.time.seconds / site.rows_done for site in level if site.rows_done]
    return min(costs) * rows if costs and rows else max(site.time.seconds for site in level)


def _routing(reports: Reports) -> float:
    """Return the seconds of routing, with splits divided among as many tasks as the widest level has sites."""
    routes = [report.time.seconds for report in reports if isinstance(report, RouteReport)]
    widest = max(map(len, _levels(reports)), default=1)
    return sum(routes) / max(1, min(len(routes), widest))


def _levels(reports: Reports) -> Iterable[list[SiteReport]]:
    """Return the site reports by level."""
    levels: dict[int, list[SiteReport]] = {}
    for report in reports:
        if isinstance(report, SiteReport):
            levels.setdefault(report.subquery, []).append(report)
    return levels.values()


def bytes_per_row(reports: Reports) -> float:
    """Return the mean bytes of the rows that were read; 0 if there were none."""
    routes = [report for report in reports if isinstance(report, RouteReport)]
    return sum(route.bytes_read for route in routes) / max(1, sum(route.rows_read for route in routes))


def largest_backlog(reports: Reports) -> int:
    """Return the number of pending rows at the site that has most of them."""
    return max((report.backlog for report in reports if isinstance(report, SiteReport)), default=0)


def whole_backlog(reports: Reports) -> int:
    """Return the number of pending rows at all sites."""
    return sum(report.backlog for report in reports if isinstance(report, SiteReport))


def flushed_seconds(reports: Reports) -> float:
    """Return the seconds spent on work that could have been deferred, as the sum over levels of their slowest site."""
    return sum(max(site.flushed for site in level) for level in _levels(reports))


def only_put_off(flushing: Flushing, reports: Reports) -> bool:
    """Return whether sites have left no work except what they deferred on purpose."""
    left = any(report.pending for report in reports if isinstance(report, SiteReport))
    return flushing.puts_off and not left


class Explosions:
    """Keys of joins with very many result rows: each is reported once, in the epoch before it is worked on.

    Invariant: `known[s]` are the hashes of subquery s that were reported in this run.
    """

    def __init__(self, subqueries: int, emit: Callable[[Event], None]) -> None:
        self._known: list[frozenset[int]] = [frozenset()] * subqueries
        self._emit = emit

    @property
    def known(self) -> tuple[frozenset[int], ...]:
        """Return the hashes that were reported, by subquery."""
        return tuple(self._known)

    def observe(self, epoch: int, reports: Reports) -> None:
        """Report the keys that the sites have found in an epoch."""
        for report in (report for report in reports if isinstance(report, SiteReport)):
            for found in report.explosions:
                self._known[report.subquery] |= {found.hash}
                self._emit(JoinExplodes(epoch, report.subquery, found.key, found.rows, found.combinations))


def epoch_timed(epoch: int, driver: Stopwatch, reports: Iterable[RouteReport | SiteReport]) -> EpochTimed:
    """Return the event with the times of an epoch; the start of each task is given in seconds since the epoch began."""
    tasks = tuple(
        TaskTimed(
            name=report.producer,
            kind="route" if isinstance(report, RouteReport) else "site",
            worker=report.time.worker,
            started=report.time.started - driver.started,
            seconds=report.time.seconds,
            steps=report.time.steps,
            fetched=report.fetched if isinstance(report, SiteReport) else 0,
        )
        for report in reports
    )
    return EpochTimed(epoch, driver.seconds, driver.steps, tasks)
