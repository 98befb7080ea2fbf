"""Executors run the tasks of an epoch somewhere: the one here in this process, those of `spark` on its executors.

The tasks of an epoch must agree: every consumer must have read the same, reported attempt of every producer. After a
lost shuffle file, a retry or speculation, Spark can hand two consumers different attempts of one producer, and attempts
differ in what a deadline left pending. An epoch in which that happened is dropped and run again. What could not be
written because a disk is full is tried again until there is room.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from penstock.engine.task.level import partition_of, run_level, run_route
from penstock.engine.wire.blob import Blob
from penstock.engine.wire.job import (
    EpochJob,
    Following,
    Message,
    Report,
    RouteReport,
    RouteTask,
    SiteReport,
    TaskFailure,
    branch_name,
    nothing_follows,
    producers_of,
    route_producer,
    site_producer,
)
from penstock.errors import DiskFullError, PenstockError
from penstock.events import DiskFull, Event
from penstock.storage.disk_errors import using_disks

LOOK_EVERY = 2.0  # seconds
Result = TypeVar("Result")


class Executor(Protocol):
    """Runs the tasks of an epoch somewhere."""

    def run(self, job: EpochJob, routes: Sequence[RouteTask], following: Following = nothing_follows) -> list[Report]:
        """The reports of all tasks. Whoever can, begins with what follows when the splits have been read."""
        ...

    def cancel(self) -> None:
        """Make a running `run` fail soon."""
        ...

    def close(self) -> None: ...


class InlineExecutor:
    """Runs the tasks of an epoch one after another in this process, for tests, small data and the simulator."""

    _cancelled = False

    def run(self, job: EpochJob, routes: Sequence[RouteTask], following: Following = nothing_follows) -> list[Report]:
        routed = [m for task in routes for m in self._unless_cancelled(job, run_route(job, task))]
        return through_levels(job, routed, self._unless_cancelled)

    def _unless_cancelled(self, job: EpochJob, messages: Iterable[Message]) -> Iterator[Message]:
        for message in messages:
            if self._cancelled:
                raise PenstockError(f"epoch {job.epoch} was given up")
            yield message

    def cancel(self) -> None:
        """Give the epoch up between two of its messages."""
        self._cancelled = True

    def close(self) -> None:
        """Nothing is held."""


def _all_of(job: EpochJob, messages: Iterable[Message]) -> Iterable[Message]:
    return messages


def through_levels(
    job: EpochJob,
    messages: Sequence[Message],
    watched: Callable[[EpochJob, Iterable[Message]], Iterable[Message]] = _all_of,
) -> list[Report]:
    """What comes of the messages of all splits; `watched` sees each message, and may raise."""
    for level in range(len(job.program.subqueries)):
        messages = list(watched(job, _one_level(job, level, messages)))
    return [m.content for m in messages if not isinstance(m.content, Blob)]


def _one_level(job: EpochJob, level: int, messages: Iterable[Message]) -> Iterator[Message]:
    partitions: list[list[Message]] = [[] for _ in range(job.width)]
    for message in messages:
        partitions[partition_of(message.site, job.width)].append(message)
    for partition, inbox in enumerate(partitions):
        yield from run_level(job, level, partition, inbox)


def successes(reports: Sequence[Report]) -> list[RouteReport | SiteReport]:
    """The reports of tasks that did their work; raises the error of one that could not."""
    for report in reports:
        if isinstance(report, TaskFailure):
            raise report.error
    return [r for r in reports if not isinstance(r, TaskFailure)]


def disagreement(job: EpochJob, reports: Sequence[RouteReport | SiteReport]) -> str | None:
    """Why the epoch must not be committed; None where all is well."""
    return next(_disagreements(job, reports), None)


def _disagreements(job: EpochJob, reports: Sequence[RouteReport | SiteReport]) -> Iterator[str]:
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
    yield from (route_producer(ordinal) for ordinal in range(len(job.route_inputs)))
    for number, directory in enumerate(job.directories):
        yield from (site_producer(number, site) for site in range(directory.sites))


def _misread(job: EpochJob, report: SiteReport, attempts: dict[str, str]) -> Iterator[str]:
    for producer, branch in _feeding(job, report.subquery):
        read = report.read.get(branch_name(producer, branch))
        if read is None:
            yield f"{report.producer} got nothing from {producer}"
        elif read != attempts.get(producer):
            yield f"{report.producer} read an attempt of {producer} other than the one that reported"


def _feeding(job: EpochJob, subquery: int) -> Iterator[tuple[str, int]]:
    """The producers that feed a subquery, each with the branch by which it does."""
    for feed in job.program.feeds(subquery):
        yield from ((producer, feed.branch_number) for producer in producers_of(job, feed))


def _nothing() -> None:
    """All that was written is still needed."""


class Room:
    """Does what needs room on a disk, again until there is some. `waits`: a full disk does not end the run. `stopping`
    is set by whoever wants the run to end, and `given_up` says that this ended a wait."""

    def __init__(self, waits: bool, tell: Callable[[Event], None]) -> None:
        self._waits, self._tell = waits, tell
        self.stopping = threading.Event()
        self.given_up = False

    def attempt(self, epoch: int, do: Callable[[], Result], discard: Callable[[], None] = _nothing) -> Result:
        """Return what comes of `do`, which may be done again after it failed for want of room. `discard` gives back
        what a try that failed has taken."""
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
