"""A worker of a pool: a long-lived Spark task that runs the tasks of epochs that the driver sends.

Each partition belongs to one worker, so a site finds its runs open, and blobs for partitions of the same worker never
leave the process.
"""

from __future__ import annotations

import threading
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Client, Connection

from pyspark.serializers import CPickleSerializer

from penstock.clock import SYSTEM_CLOCK
from penstock.engine.task.level import partition_of, run_level, run_route
from penstock.engine.wire.blob import Blob
from penstock.engine.wire.job import EpochJob, Message, Report, RouteReport, RouteTask, SiteReport, TaskFailure, ToSite
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


Request = StartEpoch | RouteRequest | SiteRequest


@dataclass(frozen=True)
class TaskDone:
    """The answer to a request: reports for the driver, and references to blobs for other workers. Unless `settled`, a
    `FilesDurable` answer follows when the files that the reports name are durable; meanwhile the worker takes other
    requests."""

    reports: tuple[Report, ...] = ()
    blobs: tuple[BlobRef, ...] = ()
    settled: bool = True


@dataclass(frozen=True)
class FilesDurable:
    """The message that the files of an earlier answer are durable. `reports` has failures, if any."""

    reports: tuple[Report, ...] = ()


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
    """Receive and answer requests until the connection is closed; answers about durable files are sent by another
    thread."""
    driver = _DriverConnection(connection)
    while True:
        request = connection.recv_bytes()
        driver.send(partial(_answer, worker, request))
        if rest := worker.unsettled():
            driver.send_later(partial(_settled, rest))


def _answer(worker: Worker, request: bytes) -> TaskDone | None:
    return worker.answer(CPickleSerializer().loads(request))


class _DriverConnection:
    """The worker's side of a connection. Invariant: the answers of two threads are not interleaved, and an answer sent
    later comes after the one sent at once."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._lock = connection, threading.Lock()
        self._later = ThreadPoolExecutor(1, thread_name_prefix="penstock-settle")

    def send(self, work: Callable[[], TaskDone | FilesDurable | None]) -> None:
        """Send the result of `work` unless it is None; if it fails, send the traceback, and the driver decides what to
        do."""
        try:
            answer: TaskDone | FilesDurable | WorkerFailed | None = work()
        except Exception:
            answer = WorkerFailed(traceback.format_exc())
        if answer is not None:
            with self._lock:
                self._connection.send(answer)

    def send_later(self, work: Callable[[], FilesDurable]) -> None:
        """Run `work` on another thread and send its result."""
        self._later.submit(self.send, work)


def _settled(rest: Iterator[Message]) -> FilesDurable:
    """Exhaust the messages of a site, which makes its files durable, and return its last reports."""
    return FilesDurable(tuple(message.content for message in rest if not isinstance(message.content, Blob)))


class EpochContext:
    """The state of one epoch on a worker. Invariant: `inboxes` has the messages for partitions of this worker, by
    subquery and partition, until they are used."""

    def __init__(self, job: EpochJob) -> None:
        self.job = job
        self.inboxes: dict[tuple[int, int], list[Message]] = defaultdict(list)
        self._arena: BlobArena | None = None

    def packed(self, to: ToSite, blob: Blob) -> BlobRef:
        """Write a blob to shared memory and return its reference."""
        self._arena = self._arena or BlobArena()
        return self._arena.pack(to, blob)

    def clear_away(self) -> None:
        """Release the shared memory of this epoch."""
        if self._arena is not None:
            self._arena.close()


class Worker:
    """A worker: the contexts of up to two epochs, and the tasks that run on them."""

    def __init__(self, number: int, workers: int) -> None:
        self._number, self._workers = number, workers
        self._shared: SharedPlan | None = None
        self._contexts: dict[str, EpochContext] = {}
        self._rest: Iterator[Message] | None = None

    def unsettled(self) -> Iterator[Message] | None:
        """Return the remaining messages of the last site, and forget them; None if there are none. Exhausting them
        makes its files durable."""
        rest, self._rest = self._rest, None
        return rest

    def answer(self, request: Request) -> TaskDone | None:
        """Run a request and return its answer."""
        match request:
            case StartEpoch():
                self._begin(request)
                return None
            case RouteRequest(context, task):
                return self._sent(here := self._contexts[context], run_route(here.job, task, SYSTEM_CLOCK))
            case SiteRequest(context, subquery, partition, blobs):
                here = self._contexts[context]
                inbox = [*here.inboxes.pop((subquery, partition), []), *_opened(blobs)]
                return self._sent(here, run_level(here.job, subquery, partition, inbox, SYSTEM_CLOCK))

    def _begin(self, begin: StartEpoch) -> None:
        """Start or update the context of an epoch, and drop contexts that are no longer needed."""
        self._shared = begin.shared or self._shared
        assert self._shared is not None, "the first request includes the shared part"
        job = self._shared.into(begin.job)
        for name in self._contexts.keys() - {begin.context, begin.keep}:
            self._contexts.pop(name).clear_away()
        self._contexts.setdefault(begin.context, EpochContext(job)).job = job

    def _sent(self, context: EpochContext, messages: Iterator[Message]) -> TaskDone:
        """Run a task and return its answer. Blobs for partitions of this worker are kept here."""
        reports: list[Report] = []
        blobs: list[BlobRef] = []
        for message in messages:
            match message:
                case Message(ToSite() as to, Blob() as blob):
                    if self._runs(partition := partition_of(to, context.job.width)):
                        context.inboxes[to.subquery, partition].append(message)
                    else:
                        blobs.append(context.packed(to, blob))
                case Message(content=SiteReport() as report):  # the last message; the rest waits for durable files
                    reports.append(report)
                    self._rest = messages
                    break
                case Message(content=RouteReport() | TaskFailure() as report):
                    reports.append(report)
        return TaskDone(tuple(reports), tuple(blobs), settled=self._rest is None)

    def _runs(self, partition: int) -> bool:
        return worker_of(partition, self._workers) == self._number


def worker_of(partition: int, workers: int) -> int:
    """Return the worker that a partition belongs to."""
    return partition % workers


def _opened(blobs: Iterable[BlobRef]) -> Iterator[Message]:
    """Yield the messages with the blobs that the references point to."""
    return (Message(ref.to, ref.open()) for ref in blobs)
