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

from penstock.clock import SYSTEM_CLOCK, Clock
from penstock.engine.task.level import partition_of, run_level, run_route
from penstock.engine.wire.blob import Blob
from penstock.engine.wire.job import (
    EpochJob,
    LookAhead,
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

LOOK_EVERY = 2.0  # seconds between two attempts on a full disk
Attempted = TypeVar("Attempted")


class Executor(Protocol):
    """Runs the tasks of an epoch."""

    def run(self, job: EpochJob, routes: Sequence[RouteTask], following: LookAhead = nothing_follows) -> list[Report]:
        """Run all tasks once and return their reports. Raise `AttemptFailed` if another attempt may succeed: the loop
        repeats it. `following` returns the splits of the next epoch, given the reports of this epoch's splits; an
        executor may start to read them early."""
        ...

    def cancel(self) -> None:
        """Make a running `run` fail soon."""
        ...

    def close(self) -> None: ...


class InlineExecutor:
    """Runs the tasks of an epoch one after another in this process, for tests, small data and the simulator."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock, self._cancelled = clock, False

    def run(self, job: EpochJob, routes: Sequence[RouteTask], following: LookAhead = nothing_follows) -> list[Report]:
        routed = [m for task in routes for m in self._unless_cancelled(job, run_route(job, task, self._clock))]
        return through_levels(job, routed, self._clock, self._unless_cancelled)

    def _unless_cancelled(self, job: EpochJob, messages: Iterable[Message]) -> Iterator[Message]:
        """Yield the messages; raise an error when the epoch is cancelled."""
        for message in messages:
            if self._cancelled:
                raise PenstockError(f"epoch {job.epoch} was cancelled")
            yield message

    def cancel(self) -> None:
        """Cancel the epoch between two of its messages."""
        self._cancelled = True

    def close(self) -> None:
        """Do nothing: no resources are held."""


def _all_of(job: EpochJob, messages: Iterable[Message]) -> Iterable[Message]:
    """Return all messages."""
    return messages


def through_levels(
    job: EpochJob,
    messages: Sequence[Message],
    clock: Clock,
    watched: Callable[[EpochJob, Iterable[Message]], Iterable[Message]] = _all_of,
) -> list[Report]:
    """Run all sites, level by level, on the messages of all splits and return the reports of all tasks. `watched` gets
    the messages of each level, and may raise."""
    for level in range(len(job.program.subqueries)):
        messages = list(watched(job, _one_level(job, level, messages, clock)))
    return [m.content for m in messages if not isinstance(m.content, Blob)]


def _one_level(job: EpochJob, level: int, messages: Iterable[Message], clock: Clock) -> Iterator[Message]:
    """Run the sites of one level, and yield their messages and those that they forward."""
    partitions: list[list[Message]] = [[] for _ in range(job.width)]
    for message in messages:
        partitions[partition_of(message.to, job.width)].append(message)
    for partition, inbox in enumerate(partitions):
        yield from run_level(job, level, partition, inbox, clock)


def successes(reports: Sequence[Report]) -> list[RouteReport | SiteReport]:
    """Return the reports of tasks that succeeded; raise the error of a task that failed."""
    for report in reports:
        if isinstance(report, TaskFailure):
            raise report.error
    return [r for r in reports if not isinstance(r, TaskFailure)]


def disagreement(job: EpochJob, reports: Sequence[RouteReport | SiteReport]) -> str | None:
    """Return why the epoch must not be committed; None if all tasks agree."""
    return next(_disagreements(job, reports), None)


def inconsistent(epoch: int, attempts: int, reason: str) -> PenstockError:
    """Return the error for an epoch whose tasks disagreed in the last attempt."""
    return PenstockError(
        f"epoch {epoch} could not be run consistently",
        detail=f"{attempts} attempts failed; in the last one {reason}",
        hint="check for executors that are lost repeatedly; the checkpoint is intact, restart the query",
    )


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

    def __init__(self, waits: bool, emit: Callable[[Event], None]) -> None:
        self._waits, self._emit = waits, emit
        self.stopping = threading.Event()
        self.given_up = False
        self._refusals = 0

    def attempt(self, epoch: int, do: Callable[[], Attempted], discard: Callable[[], None] = _nothing) -> Attempted:
        """Return the result of `do`, which may run again after it failed for lack of space. `discard` frees the space
        that a failed attempt has used."""
        number = 0
        while True:
            number += 1
            try:
                with using_disks():
                    return do()
            except DiskFullError as error:
                discard()
                self._wait(epoch, error, number)

    def granted(self, epoch: int, ask: Callable[[], bool]) -> bool:
        """Call `ask` and return its result. If the disk is full, wait for the next attempt and return False, or raise
        the error if there is none."""
        try:
            given, self._refusals = ask(), 0
        except DiskFullError as error:
            self._refusals += 1
            self._wait(epoch, error, self._refusals)
            return False
        return given

    def _wait(self, epoch: int, error: DiskFullError, number: int) -> None:
        """Wait until it is time for another attempt; raise the error if there is to be none."""
        if not self._waits:
            raise error
        self._emit(DiskFull(epoch, error.what, error.detail, number))
        if self.stopping.wait(LOOK_EVERY):
            self.given_up = True
            raise error
