"""The worker pool: one Spark job with one long-lived task (worker) per core, which runs epochs until the pool is
stopped.

Starting a job with two stages costs Spark more than the work of a small epoch. Spark starts the workers once; the
driver then sends them the tasks of epochs over sockets that only this user can open.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.connection import Client, Connection, Listener, wait
from pathlib import Path

from pyspark import InheritableThread, SparkContext, cloudpickle

from penstock.scratch import scratch_folder
from penstock.spark.failures import short_reason
from penstock.spark.workers.worker import FilesDurable, SharedPlan, TaskDone, WorkerFailed, WorkerRequest, serve

_log = logging.getLogger(__name__)
_LONGEST_FOLDER = 95  # bytes: the path of a socket can have 107
PATIENCE = 10.0  # seconds between checks whether other jobs have taken the cores while workers start
START_SECONDS = 60.0  # seconds to wait for all workers if there are no other jobs: a busy machine starts them slowly


class WorkerLost(Exception):
    """A worker has died or failed: discard the work of this pool on the running epoch."""

    def __init__(self, worker: int, reason: str) -> None:
        super().__init__(reason)
        self.worker = worker


class WorkerPool:
    """The driver's side of a worker pool: a connection to every worker. Invariant: each connection has at most one
    request without an answer, and possibly answers whose files are not durable yet."""

    def __init__(self, connections: Sequence[Connection], group: str, host: threading.Thread) -> None:
        self._connections, self.group, self._job_thread = list(connections), group, host
        self.shared: SharedPlan | None = None  # the program and directories that all workers have

    def __len__(self) -> int:
        return len(self._connections)

    def ask(self, worker: int, request: WorkerRequest) -> None:
        """Send a request to a worker."""
        self.ask_raw(worker, cloudpickle.dumps(request))

    def ask_raw(self, worker: int, request: bytes) -> None:
        """Send a pickled request to a worker. Raise `WorkerLost` if the connection is broken."""
        try:
            self._connections[worker].send_bytes(request)
        except OSError as error:
            raise WorkerLost(worker, f"worker {worker} cannot be reached: {error}") from error

    def answers(self) -> Iterator[tuple[int, TaskDone | FilesDurable]]:
        """Yield (worker, answer) for all answers that have arrived; wait for the first."""
        for connection in wait(self._connections):
            worker = self._connections.index(connection)  # type: ignore[arg-type]
            yield worker, self._answer(worker)

    def _answer(self, worker: int) -> TaskDone | FilesDurable:
        """Receive one answer. Raise `WorkerLost` if the worker died or failed."""
        try:
            answer: TaskDone | FilesDurable | WorkerFailed = self._connections[worker].recv()
        except (EOFError, OSError) as error:
            raise WorkerLost(worker, f"worker {worker} died") from error
        if isinstance(answer, WorkerFailed):
            _log.debug("worker %d failed: %s", worker, answer.trace, extra={"worker": worker})
            raise WorkerLost(worker, answer.trace)
        return answer

    def stop(self) -> None:
        """Shut down the connections: workers exit after their current task, and a thread that waits for answers gets
        `WorkerLost`. Safe at any time, from any thread."""
        for connection in self._connections:
            # Closing the connection would not wake a thread that waits on it.
            with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as end:
                end.shutdown(socket.SHUT_RDWR)

    def join(self) -> None:
        """Wait until the job of the pool has ended; call `stop` first. Takes long only if a worker is in the middle
        of a task."""
        self._job_thread.join(PATIENCE)


def start_pool(context: SparkContext, workers: int) -> WorkerPool | None:
    """Start a pool of `workers` workers; return None if they do not start in time because the cores are in use."""
    group, key = f"penstock-pool-{secrets.token_hex(8)}", secrets.token_bytes(32)
    with (
        _socket_folder() as folder,
        Listener(str(folder / "line"), authkey=key, backlog=workers) as listener,
    ):
        job = partial(_run_job, context, group, listener.address, key, workers)
        host = _JobThread(target=job, name="penstock-pool", daemon=True)
        host.start()
        connections = _accept_workers(listener, key, workers, partial(_has_other_jobs, context, group))
    pool = WorkerPool([connections[number] for number in sorted(connections)], group, host)
    if len(connections) == workers:
        _log.info("%d workers have started", workers)
        return pool
    _log.info("the worker pool did not start: %d of %d workers have connected", len(connections), workers)
    pool.stop()
    context.cancelJobGroup(group)
    return None


@contextmanager
def _socket_folder() -> Iterator[Path]:
    """Create a temporary folder that only this user can open, with a path short enough for a socket."""
    folder = scratch_folder("pool")
    if len(os.fsencode(folder)) > _LONGEST_FOLDER:
        folder = scratch_folder("pool", "/tmp")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _JobThread(InheritableThread):  # type: ignore[misc]
    """A PySpark thread whose errors are only logged: the thread that waits for the workers notices that they died."""

    def run(self) -> None:
        try:
            super().run()
        except Exception as error:  # PySpark calls the JVM at the end of a thread, and the JVM may be dead
            _log.debug("the thread of the worker pool failed: %s", short_reason(error))


def _run_job(context: SparkContext, group: str, address: str, key: bytes, workers: int) -> None:
    """Run the Spark job of the pool; it ends with the last worker."""
    try:
        context.setJobGroup(group, "long-lived workers that run epochs", interruptOnCancel=False)
        serving = partial(_run_worker, address, key, workers)
        context.parallelize(range(workers), workers).mapPartitionsWithIndex(serving).collect()
    except Exception as error:  # the thread that waits for a worker notices that it died, but only Spark may know why
        reason = short_reason(error)
        _log.info("the job of the worker pool failed: %s", reason, extra={"reason": reason})
    _wake_listener(address, key)  # wakes the accepting thread if no worker has started


def _run_worker(address: str, key: bytes, workers: int, number: int, _: object) -> Iterator[object]:
    """Run one worker as the task of a Spark job; yields no results."""
    serve(address, key, number, workers)
    return iter(())


def _has_other_jobs(context: SparkContext, group: str) -> bool:
    """Return whether jobs other than the pool's are active."""
    tracker = context.statusTracker()
    return not set(tracker.getJobIdsForGroup(group)).issuperset(tracker.getActiveJobsIds())


def _accept_workers(
    listener: Listener, key: bytes, workers: int, cores_are_taken: Callable[[], bool]
) -> dict[int, Connection]:
    """Return the connections of the workers that connect in time, by their numbers."""
    connections: dict[int, Connection] = {}
    arrived = threading.Event()
    address = listener.address
    threading.Thread(target=_wake_when_late, args=(arrived, cores_are_taken, address, key), daemon=True).start()
    while len(connections) < workers:
        with suppress(EOFError):  # a worker that connected and then died
            connection = listener.accept()
            number: int | None = connection.recv()
            if number is None:  # no more workers will connect
                break
            connections[number] = connection
    arrived.set()
    return connections


def _wake_when_late(arrived: threading.Event, cores_are_taken: Callable[[], bool], address: str, key: bytes) -> None:
    """Wake the accepting thread if workers do not connect in time, or other jobs have taken the cores."""
    waited = 0.0
    try:
        while waited < START_SECONDS and not arrived.wait(PATIENCE):
            waited += PATIENCE
            if cores_are_taken():
                break
    except Exception as error:  # a dead JVM starts no workers either
        _log.info("Spark cannot be asked for its jobs: %s", short_reason(error))
    if not arrived.is_set():
        _wake_listener(address, key)


def _wake_listener(address: str, key: bytes) -> None:
    """Wake the accepting thread by connecting without the number of a worker: no more workers will connect."""
    with suppress(OSError, EOFError), Client(address, authkey=key) as connection:
        connection.send(None)
