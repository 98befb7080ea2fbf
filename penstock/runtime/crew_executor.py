"""Epochs on a crew where there is one, and as jobs of Spark where not."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Protocol

from pyspark import cloudpickle

from penstock.engine.job import EpochJob, Report, RouteTask
from penstock.engine.loop import Executor
from penstock.errors import PenstockError
from penstock.runtime.crew import Crew, CrewLost
from penstock.runtime.crew_member import Begin, Done, Level, Request, Route, member_of
from penstock.runtime.failures import cannot_travel, task_failed
from penstock.runtime.parcels import Parcel

TRIES = 4  # as often as Spark tries a task on a cluster


class Housing(Protocol):
    """Where a crew lives."""

    def crew(self) -> AbstractContextManager[Crew | None]:
        """The crew, for one epoch, and for nobody else at the same time; None where there is none now."""
        ...

    def lost(self, crew: Crew) -> None:
        """The crew is of no use any more."""
        ...


class CrewExecutor:
    """Runs epochs on the crew of `quarters`, and by `jobs` while there is none."""

    def __init__(self, quarters: Housing, jobs: Executor) -> None:
        self._quarters, self._jobs = quarters, jobs
        self._crew: Crew | None = None  # the one that an epoch of this query is running on
        self._cancelled = False

    def run(self, job: EpochJob, routes: Sequence[RouteTask]) -> list[Report]:
        self._cancelled, told = False, ""
        for _ in range(TRIES):
            with self._quarters.crew() as crew:
                if crew is None:
                    break
                try:
                    return self._on_crew(crew, job, routes)
                except CrewLost as error:
                    self._quarters.lost(crew)
                    told = str(error)
            if self._cancelled:
                raise PenstockError(f"epoch {job.epoch} was given up")
        else:
            raise task_failed(job.epoch, told)
        return self._jobs.run(job, routes)

    def _on_crew(self, crew: Crew, job: EpochJob, routes: Sequence[RouteTask]) -> list[Report]:
        self._crew = crew
        try:
            return _Epoch(crew, job).run(routes)
        finally:
            self._crew = None

    def cancel(self) -> None:
        self._cancelled = True
        if (crew := self._crew) is not None:
            self._quarters.lost(crew)
        self._jobs.cancel()

    def close(self) -> None:
        """Nothing: the next query finds the crew warm."""


class _Epoch:
    """One epoch on a crew: all splits, then level by level all sites."""

    def __init__(self, crew: Crew, job: EpochJob) -> None:
        self._crew, self._job = crew, job
        self._reports: list[Report] = []
        self._parcels: dict[tuple[int, int], list[Parcel]] = {}

    def run(self, routes: Sequence[RouteTask]) -> list[Report]:
        self._begin()
        largest_first = sorted(routes, key=lambda route: -route.split.rows)  # so that all members end at about one time
        self._work_through(deque(map(Route, largest_first)), [])
        for level, directory in enumerate(self._job.directories):
            self._work_through(deque(), self._sites(level, directory.sites))
        return self._reports

    def _begin(self) -> None:
        """All members learn of the epoch; the program travels once."""
        known = self._crew.program is self._job.program
        bare = replace(self._job, program=None)  # type: ignore[arg-type]
        try:
            begin = cloudpickle.dumps(Begin(bare, None if known else self._job.program))
        except Exception as error:  # whatever the values of a closure raise
            raise cannot_travel(error) from error
        for member in range(len(self._crew)):
            self._crew.ask_raw(member, begin)
        self._crew.program = self._job.program

    def _sites(self, level: int, sites: int) -> list[deque[Request]]:
        """For each member, the sites of its partitions."""
        own: list[deque[Request]] = [deque() for _ in range(len(self._crew))]
        for site in range(sites):
            parcels = tuple(self._parcels.pop((level, site), ()))
            own[member_of(site, len(own))].append(Level(level, site, parcels))
        return own

    def _work_through(self, anybody: deque[Request], own: Sequence[deque[Request]]) -> None:
        """Give each member the next of its own tasks, or else the next that anybody may do, until all are done."""
        queues = [(*own[member : member + 1], anybody) for member in range(len(self._crew))]
        busy = sum(self._give(member, queues[member]) for member in range(len(self._crew)))
        while busy:
            for member, done in self._crew.answers():
                self._take(done)
                busy += self._give(member, queues[member]) - 1

    def _give(self, member: int, queues: Sequence[deque[Request]]) -> int:
        for queue in queues:
            if queue:
                self._crew.ask(member, queue.popleft())
                return 1
        return 0

    def _take(self, done: Done) -> None:
        self._reports += done.reports
        for parcel in done.parcels:
            self._parcels.setdefault((parcel.subquery, parcel.site), []).append(parcel)
