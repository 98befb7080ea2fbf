"""A worker of a pool: a long-lived Spark task that runs the tasks of epochs that the driver sends.

Each partition belongs to one worker, so a site finds its runs open, and blobs for partitions of the same worker never
leave the process.
"""

from __future__ import annotations

import threading
import traceback
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Client, Connection

from pyspark.serializers import CPickleSerializer

from penstock.clock import SYSTEM_CLOCK
from penstock.engine.task.level import once_durable, partition_of, run_route, run_site
from penstock.engine.wire.blob import Blob
from penstock.engine.wire.job import (
    EpochJob,
    Message,
    Report,
    RouteReport,
    RouteTask,
    SiteReport,
    SiteResult,
    TaskFailure,
    ToSite,
)
from penstock.plan.program import Program
from penstock.spark.workers.allocator import keep_freed_memory
from penstock.spark.workers.transport import BlobArena, BlobRef
from penstock.state.directory import Directory


@dataclass(frozen=True)
class SharedPlan:
    """The part of a job that seldom changes: it is sent to workers only when it has changed."""

    program: Program
    directories: tuple[Directory, ...]

    def is_that_of(self, job: EpochJob) -> bool:
        """Return whether the job has these very objects."""
        return self.program is job.program and self.directories is job.directories

    def without(self, job: EpochJob) -> EpochJob:
        """Return the job without the shared part, for sending."""
        return replace(job, program=None, directories=None)  # type: ignore[arg-type]

    def into(self, job: EpochJob) -> EpochJob:
        """Return the job with the shared part filled in."""
        return replace(job, program=self.program, directories=self.directories)


@dataclass(frozen=True)
class StartEpoch:
    """A request to start or update the context of an epoch. Drops all contexts except this one and `keep`. `shared` is
    None if unchanged. The only request that has no answer unless it fails."""

    context: str
    job: EpochJob
    shared: SharedPlan | None
    keep: str | None = None


@dataclass(frozen=True)
class RouteRequest:
    """A request to route one split."""

    context: str
    task: RouteTask


@dataclass(frozen=True)
class SiteRequest:
    """A request to run the site of a subquery in `partition`, on the blobs that other workers have sent to it."""

    context: str
    subquery: int
    partition: int
    blobs: tuple[BlobRef, ...]


WorkerRequest = StartEpoch | RouteRequest | SiteRequest


@dataclass(frozen=True)
class TaskDone:
    """The answer to a request: reports for the driver, and references to blobs for other workers. Unless `durable`, a
    `FilesDurable` answer follows when the files that the reports name are durable; meanwhile the worker takes other
    requests."""

    reports: tuple[Report, ...] = ()
    blobs: tuple[BlobRef, ...] = ()
    durable: bool = True


@dataclass(frozen=True)
class FilesDurable:
    """The message that the files of an earlier answer are durable, unless there is a `failure`."""

    failure: TaskFailure | None = None


@dataclass(frozen=True)
class WorkerFailed:
    """The answer of a worker that failed with an unexpected exception."""

    trace: str


def serve(address: str, key: bytes, number: int, workers: int) -> None:
    """Run requests of the driver until it closes the connection."""
    keep_freed_memory()
    try:
        with Client(address, authkey=key) as connection:
            connection.send(number)
            _answer_all(connection, Worker(number, workers))
    except (EOFError, OSError):
        return  # the driver has ended, or has stopped this pool


def _answer_all(connection: Connection, worker: Worker) -> None:
    """Receive and answer requests until the connection is closed. The thread that has synced the last file of a site
    confirms that its files are durable."""
    driver = _DriverConnection(connection)
    while True:
        request = connection.recv_bytes()
        answer = _answer(worker, request)
        if answer is not None:
            driver.send(answer if isinstance(answer, WorkerFailed) else answer.done)
        if isinstance(answer, TaskAnswer) and answer.site is not None:
            answer.site.durable.add_done_callback(partial(driver.confirm, answer.site))


def _answer(worker: Worker, request: bytes) -> TaskAnswer | WorkerFailed | None:
    """Return the answer to a request, or the traceback if it fails: the driver decides what to do."""
    try:
        return worker.answer(CPickleSerializer().loads(request))
    except Exception as error:
        return _failed(error)


def _failed(error: Exception) -> WorkerFailed:
    return WorkerFailed("".join(traceback.format_exception(error)))


class _DriverConnection:
    """The worker's side of a connection. Invariant: the answers of two threads are not interleaved."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._lock = connection, threading.Lock()

    def send(self, answer: TaskDone | FilesDurable | WorkerFailed) -> None:
        """Send an answer."""
        with self._lock:
            self._connection.send(answer)

    def confirm(self, site: SiteResult, _: object) -> None:
        """Send that the files of a site are durable, or why not."""
        with suppress(OSError):  # the driver has closed the connection: the thread that receives requests notices
            self.send(_confirmation(site))


def _confirmation(site: SiteResult) -> FilesDurable | WorkerFailed:
    try:
        report = once_durable(site)
    except Exception as error:
        return _failed(error)
    return FilesDurable(report if isinstance(report, TaskFailure) else None)


class EpochContext:
    """The state of one epoch on a worker. Invariant: `inboxes` has the blobs for partitions of this worker, by
    subquery and partition, until they are used."""

    def __init__(self, job: EpochJob) -> None:
        self.job = job
        self.inboxes: dict[tuple[int, int], list[Blob]] = defaultdict(list)
        self._arena: BlobArena | None = None

    def packed(self, to: ToSite, blob: Blob) -> BlobRef:
        """Write a blob to shared memory and return its reference."""
        self._arena = self._arena or BlobArena()
        return self._arena.pack(to, blob)

    def clear_away(self) -> None:
        """Release the shared memory of this epoch."""
        if self._arena is not None:
            self._arena.close()


@dataclass(frozen=True)
class TaskAnswer:
    """What a worker answers: `done` at once, and about the files of a `site`, if it has run one, when they are
    durable."""

    done: TaskDone
    site: SiteResult | None = None


class Worker:
    """A worker: the contexts of up to two epochs, and the tasks that run on them."""

    def __init__(self, number: int, workers: int) -> None:
        self._number, self._workers = number, workers
        self._shared: SharedPlan | None = None
        self._contexts: dict[str, EpochContext] = {}

    def answer(self, request: WorkerRequest) -> TaskAnswer | None:
        """Run a request and return its answer; None if it has none."""
        match request:
            case StartEpoch():
                self._begin(request)
                return None
            case RouteRequest(context, task):
                here = self._contexts[context]
                return TaskAnswer(self._sent(here, run_route(here.job, task, SYSTEM_CLOCK)))
            case SiteRequest(context, subquery, partition, blobs):
                here = self._contexts[context]
                inbox = [*here.inboxes.pop((subquery, partition), []), *(ref.open() for ref in blobs)]
                return self._site_answer(here, run_site(here.job, subquery, partition, inbox, SYSTEM_CLOCK))

    def _site_answer(self, context: EpochContext, result: SiteResult | TaskFailure) -> TaskAnswer:
        if isinstance(result, TaskFailure):
            return TaskAnswer(TaskDone((result,)))
        sent = self._sent(context, result.messages)
        return TaskAnswer(replace(sent, reports=(result.report,), durable=False), replace(result, messages=()))

    def _begin(self, begin: StartEpoch) -> None:
        """Start or update the context of an epoch, and drop contexts that are no longer needed."""
        self._shared = begin.shared or self._shared
        assert self._shared is not None, "the first request includes the shared part"
        job = self._shared.into(begin.job)
        for name in self._contexts.keys() - {begin.context, begin.keep}:
            self._contexts.pop(name).clear_away()
        self._contexts.setdefault(begin.context, EpochContext(job)).job = job

    def _sent(self, context: EpochContext, messages: Iterable[Message]) -> TaskDone:
        """Return the answer of a task with these messages. Blobs for partitions of this worker are kept here."""
        reports: list[Report] = []
        blobs: list[BlobRef] = []
        for message in messages:
            match message:
                case Message(ToSite() as to, Blob() as blob):
                    if self._runs(partition := partition_of(to, context.job.width)):
                        context.inboxes[to.subquery, partition].append(blob)
                    else:
                        blobs.append(context.packed(to, blob))
                case Message(content=RouteReport() | SiteReport() | TaskFailure() as report):
                    reports.append(report)
        return TaskDone(tuple(reports), tuple(blobs))

    def _runs(self, partition: int) -> bool:
        return worker_of(partition, self._workers) == self._number


def worker_of(partition: int, workers: int) -> int:
    """Return the worker that a partition belongs to."""
    return partition % workers
