"""Schedule epochs on a worker pool: the splits of an epoch, then its sites level by level, and, on workers that are
free meanwhile, the splits of the next epoch."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from pyspark import cloudpickle

from penstock.engine.wire.job import EpochJob, Following, Report, RouteTask
from penstock.spark.failures import cannot_travel
from penstock.spark.workers.pool import Crew
from penstock.spark.workers.transport import Parcel
from penstock.spark.workers.worker import Begin, Done, Level, Route, Settled, Shared, member_of


class Errand(NamedTuple):
    """A request for a worker, with its epoch."""

    epoch: CrewEpoch
    request: Route | Level


Queue = deque[Errand]


class CrewEpoch:
    """An epoch on a pool. Invariant: a split is in `splits` until a worker is asked to route it; `unanswered` counts
    the requests without an answer or whose files are not durable yet; the content of answers is in `reports` and
    `_parcels`."""

    def __init__(self, job: EpochJob, routes: Sequence[RouteTask]) -> None:
        self.job, self.routes, self.desk = job, routes, uuid.uuid4().hex
        largest_first = sorted(routes, key=lambda route: -route.split.rows)  # so that all workers finish about together
        self.splits: Queue = deque(Errand(self, Route(self.desk, route)) for route in largest_first)
        self.unanswered = 0
        self.reports: list[Report] = []
        self._parcels: dict[tuple[int, int], list[Parcel]] = {}

    def take(self, done: Done) -> None:
        """Record the answer to a request."""
        self.unanswered -= done.settled
        self.reports += done.reports
        for parcel in done.parcels:
            self._parcels.setdefault((parcel.subquery, parcel.site), []).append(parcel)

    def settle(self, settled: Settled) -> None:
        """Record that the files of an earlier answer are durable."""
        self.unanswered -= 1
        self.reports += settled.reports

    def sites(self, level: int, members: int) -> list[Queue]:
        """Return, for each worker, the requests for the sites of its partitions on a level. A query without state has
        none."""
        own: list[Queue] = [deque() for _ in range(members)]
        for site in range(self.job.directories[level].sites if self.job.directories else 0):
            parcels = tuple(self._parcels.pop((level, site), ()))
            own[member_of(site, members)].append(Errand(self, Level(self.desk, level, site, parcels)))
        return own


class Shift:
    """The scheduler of a pool, for epochs of any query.

    Invariant: `_at[w]` is the epoch of the one request that worker w has to answer; None: the worker is free. The
    splits of `_ahead` are started early: if the next epoch has the same splits, their results are used; if not, or if
    another query comes first, they are discarded.
    """

    def __init__(self, crew: Crew) -> None:
        self.crew = crew
        self._ahead: CrewEpoch | None = None
        self._running: CrewEpoch | None = None
        self._at: list[CrewEpoch | None] = [None] * len(crew)

    def run(self, job: EpochJob, routes: Sequence[RouteTask], following: Following) -> list[Report]:
        """Run an epoch and return the reports of all tasks; start the splits of the next one, given by `following`."""
        epoch, inner = self._begun_before(job, routes) or self._begin(CrewEpoch(job, routes)), len(job.directories) - 1
        self._running = epoch
        self._work_through(epoch, [[epoch.splits]] * len(self.crew))
        routed = tuple(epoch.reports)
        self._tell(epoch.desk, job)
        for level in range(inner):
            self._work_through(epoch, [[own] for own in epoch.sites(level, len(self.crew))])
        last = epoch.sites(inner, len(self.crew))
        self._ask_the_free([[own] for own in last])
        behind = self._begin_ahead(following(routed), epoch)  # only now, while all workers are busy
        self._work_through(epoch, [[own, behind] for own in last])
        return epoch.reports

    def _drain(self) -> None:
        """Wait until all workers are free."""
        while any(self._at):
            self._hear()

    def _begun_before(self, job: EpochJob, routes: Sequence[RouteTask]) -> CrewEpoch | None:
        """Return the epoch that was started early if it has the same program and splits; otherwise wait until its tasks
        are done, and return None."""
        ahead, self._ahead = self._ahead, None
        if ahead is None or ahead.job.program is not job.program or ahead.routes is not routes:
            self._drain()
            return None
        ahead.job = job
        return ahead

    def _begin_ahead(self, following: tuple[EpochJob, Sequence[RouteTask]] | None, running: CrewEpoch) -> Queue:
        """Start the next epoch and return the queue of its splits; empty if it cannot start early. Busy workers do not
        read their connection, so nothing large may be sent now: the driver and a worker could block each other."""
        shared = self.crew.shared
        if following is None or not following[1] or shared is None or not shared.is_that_of(following[0]):
            return deque()
        self._ahead = self._begin(CrewEpoch(*following), keep=running.desk)
        return self._ahead.splits

    def _begin(self, epoch: CrewEpoch, keep: str | None = None) -> CrewEpoch:
        """Send all workers the part of the job that routing needs."""
        self._tell(epoch.desk, replace(epoch.job, sites=(), sources=()), keep)
        return epoch

    def _tell(self, desk: str, job: EpochJob, keep: str | None = None) -> None:
        """Send a job to all workers; the shared part only if it has changed."""
        shared, known = Shared(job.program, job.directories), self.crew.shared
        news = None if known is not None and known.is_that_of(job) else shared
        try:
            request = cloudpickle.dumps(Begin(desk, shared.without(job), news, keep))
        except Exception as error:  # pickling the values of a closure can raise anything
            raise cannot_travel(error) from error
        for member in range(len(self.crew)):
            self.crew.ask_raw(member, request)
        self.crew.shared = shared

    def _work_through(self, epoch: CrewEpoch, queues: Sequence[Sequence[Queue]]) -> None:
        """Give each free worker the next request of its queues until the epoch has no open requests."""
        self._ask_the_free(queues)
        while epoch.unanswered:
            self._hear()
            self._ask_the_free(queues)

    def _ask_the_free(self, queues: Sequence[Sequence[Queue]]) -> None:
        """Send each free worker the next request of its queues."""
        for member, queue in enumerate(queues):
            errand = None if self._at[member] else next((own.popleft() for own in queue if own), None)
            if errand is not None:
                self.crew.ask(member, errand.request)
                errand.epoch.unanswered += 1
                self._at[member] = errand.epoch

    def _hear(self) -> None:
        """Receive answers, waiting for the first, and record them."""
        for member, answer in self.crew.answers():
            match answer, self._at[member]:
                case Settled(), _:
                    assert self._running is not None, "only sites have files, and only the running epoch has sites"
                    self._running.settle(answer)
                case Done(), CrewEpoch() as epoch:
                    epoch.take(answer)
                    self._at[member] = None
