"""Decide whether an attempt of an epoch counts, and retry work that needs disk space.

The tasks of an epoch must agree: every consumer must have read the same, reported attempt of every producer. After a
lost shuffle file, a retry or speculation, Spark can hand two consumers different attempts of one producer, and attempts
differ in the work that a deadline left pending. An epoch in which that happened is dropped and run again.

A write that failed because a disk is full is retried until there is space.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from penstock.engine.wire.job import (
    EpochJob,
    Report,
    RouteReport,
    SiteReport,
    TaskFailure,
    branch_name,
    producers_of,
    route_producer,
    site_producer,
)
from penstock.errors import DiskFullError
from penstock.events import DiskFull, Event
from penstock.storage.disk_errors import using_disks

LOOK_EVERY = 2.0  # seconds between two attempts on a full disk
Result = TypeVar("Result")


def successes(reports: Sequence[Report]) -> list[RouteReport | SiteReport]:
    """Return the reports of tasks that succeeded; raise the error of a task that failed."""
    for report in reports:
        if isinstance(report, TaskFailure):
            raise report.error
    return [r for r in reports if not isinstance(r, TaskFailure)]


def disagreement(job: EpochJob, reports: Sequence[RouteReport | SiteReport]) -> str | None:
    """Return why the epoch must not be committed; None if all tasks agree."""
    return next(_disagreements(job, reports), None)


def _disagreements(job: EpochJob, reports: Sequence[RouteReport | SiteReport]) -> Iterator[str]:
    """Yield every reason why the epoch must not be committed: duplicate or missing reports, wrong attempts read."""
    attempts: dict[str, str] = {}
    for report in reports:
        if report.producer in attempts:
            yield f"{report.producer} reported twice"
        attempts[report.producer] = report.attempt
    for producer in _expected(job):
        if producer not in attempts:
            yield f"{producer} did not report"
    for report in reports:
        if isinstance(report, SiteReport):
            yield from _misread(job, report, attempts)


def _expected(job: EpochJob) -> Iterator[str]:
    """Yield the producers that must report."""
    yield from (route_producer(ordinal) for ordinal in range(len(job.route_inputs)))
    for number, directory in enumerate(job.directories):
        yield from (site_producer(number, site) for site in range(directory.sites))


def _misread(job: EpochJob, report: SiteReport, attempts: dict[str, str]) -> Iterator[str]:
    """Yield the producers that a site has not read, or of which it has read another attempt than the one that
    reported."""
    for producer, branch in _feeding(job, report.subquery):
        read = report.read.get(branch_name(producer, branch))
        if read is None:
            yield f"{report.producer} received nothing from {producer}"
        elif read != attempts.get(producer):
            yield f"{report.producer} read an attempt of {producer} other than the one that reported"


def _feeding(job: EpochJob, subquery: int) -> Iterator[tuple[str, int]]:
    """Yield the producers that feed a subquery, each with the number of the branch."""
    for feed in job.program.feeds(subquery):
        yield from ((producer, feed.branch_number) for producer in producers_of(job, feed))


def _nothing() -> None:
    """Discard nothing: all files written so far are still needed."""


class Room:
    """Runs work that needs disk space, and retries it while a disk is full if `waits` is set. Set `stopping` to end the
    run; `given_up` says that a wait ended because of it."""

    def __init__(self, waits: bool, tell: Callable[[Event], None]) -> None:
        self._waits, self._tell = waits, tell
        self.stopping = threading.Event()
        self.given_up = False

    def attempt(self, epoch: int, do: Callable[[], Result], discard: Callable[[], None] = _nothing) -> Result:
        """Return the result of `do`, which may run again after it failed for lack of space. `discard` frees the space
        that a failed attempt has used."""
        while True:
            try:
                with using_disks():
                    return do()
            except DiskFullError as error:
                discard()
                if not self._waits:
                    raise
                self._tell(DiskFull(epoch, error.what, error.detail))
                if self.stopping.wait(LOOK_EVERY):
                    self.given_up = True
                    raise
