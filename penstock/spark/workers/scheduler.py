"""Schedule epochs on a worker pool: the splits of an epoch, then its sites level by level, and, on workers that are
free meanwhile, the splits of the next epoch."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from pyspark import cloudpickle

from penstock.engine.wire.job import EpochJob, LookAhead, Report, RouteTask, ToSite
from penstock.spark.failures import cannot_travel
from penstock.spark.workers.pool import WorkerPool
from penstock.spark.workers.transport import BlobRef
from penstock.spark.workers.worker import (
    FilesDurable,
    RouteRequest,
    SharedPlan,
    SiteRequest,
    StartEpoch,
    TaskDone,
    worker_of,
)


class TaskRequest(NamedTuple):
    """A request for a worker, with its epoch."""

    epoch: ScheduledEpoch
    request: RouteRequest | SiteRequest


Queue = deque[TaskRequest]


class ScheduledEpoch:
    """An epoch on a pool. Invariant: a split is in `splits` until a worker is asked to route it; `unanswered` counts
    the requests without an answer or whose files are not durable yet; the content of answers is in `reports` and
    `_blobs`."""

    def __init__(self, job: EpochJob, routes: Sequence[RouteTask]) -> None:
        self.job, self.routes, self.context = job, routes, uuid.uuid4().hex
        largest_first = sorted(routes, key=lambda route: -route.split.rows)  # so that all workers finish about together
        self.splits: Queue = deque(TaskRequest(self, RouteRequest(self.context, route)) for route in largest_first)
        self.unanswered = 0
        self.reports: list[Report] = []
        self._blobs: dict[ToSite, list[BlobRef]] = {}

    def take(self, done: TaskDone) -> None:
        """Record the answer to a request."""
        self.unanswered -= done.durable
        self.reports += done.reports
        for ref in done.blobs:
            self._blobs.setdefault(ref.to, []).append(ref)

    def confirm(self, durable: FilesDurable) -> None:
        """Record that the files of an earlier answer are durable, or could not be made so."""
        self.unanswered -= 1
        self.reports += [] if durable.failure is None else [durable.failure]

    def sites(self, level: int, workers: int) -> list[Queue]:
        """Return, for each worker, the requests for the sites of its partitions on a level. A query without state has
        none."""
        own: list[Queue] = [deque() for _ in range(workers)]
        for site in range(self.job.directories[level].sites if self.job.directories else 0):
            blobs = tuple(self._blobs.pop(ToSite(level, site), ()))
            own[worker_of(site, workers)].append(TaskRequest(self, SiteRequest(self.context, level, site, blobs)))
        return own


def requests_to_start(start: StartEpoch, workers: int) -> list[bytes]:
    """Return the pickled request for each worker. A worker gets only the state of its own sites; workers that share a
    cache also get the names of the other runs, which they must not remove from it."""
    job = start.job
    try:
        if not job.sites:
            return [cloudpickle.dumps(start)] * workers
        own = [job.for_sites(partial(_is_of, worker, workers), bool(job.cache)) for worker in range(workers)]
        return [cloudpickle.dumps(replace(start, job=part)) for part in own]
    except Exception as error:  # pickling the values of a closure can raise anything
        raise cannot_travel(error) from error


def _is_of(worker: int, workers: int, to: ToSite) -> bool:
    return worker_of(to.site, workers) == worker


class EpochScheduler:
    """The scheduler of a pool, for epochs of any query.

    Invariant: `_at[w]` is the epoch of the one request that worker w has to answer; None: the worker is free. The
    splits of `_ahead` are started early: if the next epoch has the same splits, their results are used; if not, or if
    another query comes first, they are discarded.
    """

    def __init__(self, pool: WorkerPool) -> None:
        self.pool = pool
        self._ahead: ScheduledEpoch | None = None
        self._running: ScheduledEpoch | None = None
        self._at: list[ScheduledEpoch | None] = [None] * len(pool)

    def run(self, job: EpochJob, routes: Sequence[RouteTask], following: LookAhead) -> list[Report]:
        """Run an epoch and return the reports of all tasks; start the splits of the next one, given by `following`."""
        epoch = self._begun_before(job, routes) or self._begin(ScheduledEpoch(job, routes))
        inner = len(job.directories) - 1
        self._running = epoch
        self._work_through(epoch, [[epoch.splits]] * len(self.pool))
        routed = tuple(epoch.reports)
        self._send_context(epoch.context, job)
        for level in range(inner):
            self._work_through(epoch, [[own] for own in epoch.sites(level, len(self.pool))])
        last = epoch.sites(inner, len(self.pool))
        self._ask_the_free([[own] for own in last])
        behind = self._begin_ahead(following(routed), epoch)  # only now, while all workers are busy
        self._work_through(epoch, [[own, behind] for own in last])
        return epoch.reports

    def _drain(self) -> None:
        """Wait until all workers are free."""
        while any(self._at):
            self._receive()

    def _begun_before(self, job: EpochJob, routes: Sequence[RouteTask]) -> ScheduledEpoch | None:
        """Return the epoch that was started early if it has the same program and splits; otherwise wait until its tasks
        are done, and return None."""
        ahead, self._ahead = self._ahead, None
        if ahead is None or ahead.job.program is not job.program or ahead.routes is not routes:
            self._drain()
            return None
        ahead.job = job
        return ahead

    def _begin_ahead(self, following: tuple[EpochJob, Sequence[RouteTask]] | None, running: ScheduledEpoch) -> Queue:
        """Start the next epoch and return the queue of its splits; empty if it cannot start early. Busy workers do not
        read their connection, so nothing large may be sent now: the driver and a worker could block each other."""
        shared = self.pool.shared
        if following is None or not following[1] or shared is None or not shared.is_that_of(following[0]):
            return deque()
        self._ahead = self._begin(ScheduledEpoch(*following), keep=running.context)
        return self._ahead.splits

    def _begin(self, epoch: ScheduledEpoch, keep: str | None = None) -> ScheduledEpoch:
        """Send all workers the part of the job that routing needs."""
        self._send_context(epoch.context, epoch.job.for_routing(), keep)
        return epoch

    def _send_context(self, context: str, job: EpochJob, keep: str | None = None) -> None:
        """Send each worker its part of a job; the shared part only if it has changed."""
        shared, known = SharedPlan(job.program, job.directories), self.pool.shared
        news = None if known is not None and known.is_that_of(job) else shared
        start = StartEpoch(context, shared.without(job), news, keep)
        for worker, request in enumerate(requests_to_start(start, len(self.pool))):
            self.pool.ask_raw(worker, request)
        self.pool.shared = shared

    def _work_through(self, epoch: ScheduledEpoch, queues: Sequence[Sequence[Queue]]) -> None:
        """Give each free worker the next request of its queues until the epoch has no open requests."""
        self._ask_the_free(queues)
        while epoch.unanswered:
            self._receive()
            self._ask_the_free(queues)

    def _ask_the_free(self, queues: Sequence[Sequence[Queue]]) -> None:
        """Send each free worker the next request of its queues."""
        for worker, queue in enumerate(queues):
            task = None if self._at[worker] else next((own.popleft() for own in queue if own), None)
            if task is not None:
                self.pool.ask(worker, task.request)
                task.epoch.unanswered += 1
                self._at[worker] = task.epoch

    def _receive(self) -> None:
        """Receive answers, waiting for the first, and record them."""
        for worker, answer in self.pool.answers():
            match answer, self._at[worker]:
                case FilesDurable(), _:
                    assert self._running is not None, "only sites have files, and only the running epoch has sites"
                    self._running.confirm(answer)
                case TaskDone(), ScheduledEpoch() as epoch:
                    epoch.take(answer)
                    self._at[worker] = None
