"""The worker pool: one Spark job with one long-lived task (worker) per core, which runs epochs until the pool is
stopped.

Starting a job with two stages costs Spark more than the work of a small epoch. Spark starts the workers once; the
driver then sends them the tasks of epochs over sockets that only this user can open.
"""

from __future__ import annotations

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
from penstock.spark.workers.worker import Broken, Done, Request, Settled, Shared, serve

NOBODY = -1
_LONGEST_FOLDER = 95  # bytes: the path of a socket can have 107
PATIENCE = 10.0  # seconds between checks whether other jobs have taken the cores while workers start
STARTING = 60.0  # seconds to wait for all workers if there are no other jobs: a busy machine starts them slowly


class CrewLost(Exception):
    """A worker has died or failed: discard the work of this pool on the running epoch."""


class Crew:
    """The driver's side of a worker pool: a connection to every worker. Invariant: each connection has at most one
    request without an answer, and possibly answers whose files are not durable yet."""

    def __init__(self, lines: Sequence[Connection], group: str, host: threading.Thread) -> None:
        self._lines, self.group, self._host = list(lines), group, host
        self.shared: Shared | None = None  # the program and directories that all workers have

    def __len__(self) -> int:
        return len(self._lines)

    def ask(self, member: int, request: Request) -> None:
        """Send a request to a worker."""
        self.ask_raw(member, cloudpickle.dumps(request))

    def ask_raw(self, member: int, request: bytes) -> None:
        """Send a pickled request to a worker. Raise `CrewLost` if the connection is broken."""
        try:
            self._lines[member].send_bytes(request)
        except OSError as error:
            raise CrewLost(f"worker {member} cannot be reached: {error}") from error

    def answers(self) -> Iterator[tuple[int, Done | Settled]]:
        """Yield (worker, answer) for all answers that have arrived; wait for the first."""
        for line in wait(self._lines):
            member = self._lines.index(line)  # type: ignore[arg-type]
            yield member, self._answer(member)

    def _answer(self, member: int) -> Done | Settled:
        """Receive one answer. Raise `CrewLost` if the worker died or failed."""
        try:
            answer: Done | Settled | Broken = self._lines[member].recv()
        except (EOFError, OSError) as error:
            raise CrewLost(f"worker {member} died") from error
        if isinstance(answer, Broken):
            raise CrewLost(answer.trace)
        return answer

    def dismiss(self) -> None:
        """Shut down the connections: workers exit after their current task, and a thread that waits for answers gets
        `CrewLost`. Safe at any time, from any thread."""
        for line in self._lines:
            # Closing the connection would not wake a thread that waits on it.
            with suppress(OSError), socket.socket(fileno=os.dup(line.fileno())) as end:
                end.shutdown(socket.SHUT_RDWR)

    def wait_until_gone(self) -> None:
        """Wait until the job of the pool has ended; call `dismiss` first. Takes long only if a worker is in the middle
        of a task."""
        self._host.join(PATIENCE)


def hire(context: SparkContext, members: int) -> Crew | None:
    """Start a pool of `members` workers; return None if they do not start in time because the cores are in use."""
    group, key = f"penstock-crew-{secrets.token_hex(8)}", secrets.token_bytes(32)
    with (
        _socket_folder() as folder,
        Listener(str(folder / "line"), authkey=key, backlog=members) as listener,
    ):
        job = partial(_host, context, group, listener.address, key, members)
        host = _HostThread(target=job, name="penstock-crew", daemon=True)
        host.start()
        lines = _arrived(listener, key, members, partial(_has_other_jobs, context, group))
    crew = Crew([lines[number] for number in sorted(lines)], group, host)
    if len(lines) == members:
        return crew
    crew.dismiss()
    context.cancelJobGroup(group)
    return None


@contextmanager
def _socket_folder() -> Iterator[Path]:
    """Create a temporary folder that only this user can open, with a path short enough for a socket."""
    folder = scratch_folder("crew")
    if len(os.fsencode(folder)) > _LONGEST_FOLDER:
        folder = scratch_folder("crew", "/tmp")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _HostThread(InheritableThread):  # type: ignore[misc]
    """A PySpark thread that ignores errors when Spark dies: the thread that waits for the workers notices."""

    def run(self) -> None:
        with suppress(Exception):
            super().run()


def _host(context: SparkContext, group: str, address: str, key: bytes, members: int) -> None:
    """Run the Spark job of the pool; it ends with the last worker."""
    with suppress(Exception):  # the thread that waits for a worker notices that the worker has died
        context.setJobGroup(group, "long-lived workers that run epochs", interruptOnCancel=False)
        serving = partial(_hosted, address, key, members)
        context.parallelize(range(members), members).mapPartitionsWithIndex(serving).collect()
    _ring(address, key)  # wakes the accepting thread if no worker has started


def _hosted(address: str, key: bytes, members: int, number: int, _: object) -> Iterator[object]:
    """Run one worker as the task of a Spark job; yields no results."""
    serve(address, key, number, members)
    return iter(())


def _has_other_jobs(context: SparkContext, group: str) -> bool:
    """Return whether jobs other than the pool's are active."""
    tracker = context.statusTracker()
    return not set(tracker.getJobIdsForGroup(group)).issuperset(tracker.getActiveJobsIds())


def _arrived(
    listener: Listener, key: bytes, members: int, cores_are_taken: Callable[[], bool]
) -> dict[int, Connection]:
    """Return the connections of the workers that connect in time, by their numbers."""
    lines: dict[int, Connection] = {}
    arrived = threading.Event()
    address = listener.address
    threading.Thread(target=_give_up, args=(arrived, cores_are_taken, address, key), daemon=True).start()
    while len(lines) < members:
        with suppress(EOFError):  # a worker that connected and then died
            line = listener.accept()
            number = line.recv()
            if number == NOBODY:
                break
            lines[number] = line
    arrived.set()
    return lines


def _give_up(arrived: threading.Event, cores_are_taken: Callable[[], bool], address: str, key: bytes) -> None:
    """Wake the accepting thread if workers do not connect in time, or other jobs have taken the cores."""
    waited = 0.0
    with suppress(Exception):  # a dead JVM starts no workers either
        while waited < STARTING and not arrived.wait(PATIENCE):
            waited += PATIENCE
            if cores_are_taken():
                break
    if not arrived.is_set():
        _ring(address, key)


def _ring(address: str, key: bytes) -> None:
    """Wake the accepting thread by connecting with the number `NOBODY`: no more workers will connect."""
    with suppress(OSError, EOFError), Client(address, authkey=key) as line:
        line.send(NOBODY)
