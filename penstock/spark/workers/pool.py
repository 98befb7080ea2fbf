"""The crew: one Spark job whose tasks stay, one on every core, and serve epochs until they are dismissed.

Starting a job of two stages costs Spark more than the work of a small epoch. Here Spark starts the workers, once, and
epochs reach them over sockets that only this user can open.
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
_LONGEST_FOLDER = 95  # bytes: the path of a socket has room for 107
PATIENCE = 10.0  # seconds to wait for all members while other jobs may have taken the cores
STARTING = 60.0  # seconds to wait for them while there are none: a busy machine starts processes slowly


class CrewLost(Exception):
    """A member has died or could not answer: nothing that this crew did in the running epoch counts."""


class Crew:
    """Invariant: every line has at most one request that is to be answered, and some whose files are to be settled."""

    def __init__(self, lines: Sequence[Connection], group: str, host: threading.Thread) -> None:
        self._lines, self.group, self._host = list(lines), group, host
        self.shared: Shared | None = None  # what all members know

    def __len__(self) -> int:
        return len(self._lines)

    def ask(self, member: int, request: Request) -> None:
        self.ask_raw(member, cloudpickle.dumps(request))

    def ask_raw(self, member: int, request: bytes) -> None:
        try:
            self._lines[member].send_bytes(request)
        except OSError as error:
            raise CrewLost(f"worker {member} has gone: {error}") from error

    def answers(self) -> Iterator[tuple[int, Done | Settled]]:
        """The answers that are there; waits for the first."""
        for line in wait(self._lines):
            member = self._lines.index(line)  # type: ignore[arg-type]
            yield member, self._answer(member)

    def _answer(self, member: int) -> Done | Settled:
        try:
            answer: Done | Settled | Broken = self._lines[member].recv()
        except (EOFError, OSError) as error:
            raise CrewLost(f"worker {member} died") from error
        if isinstance(answer, Broken):
            raise CrewLost(answer.trace)
        return answer

    def dismiss(self) -> None:
        """Hang up: members end when they have done what they are at, and whoever waits for them is told. Safe at any
        time, from any thread."""
        for line in self._lines:
            # Closing would not wake a thread that waits on the line.
            with suppress(OSError), socket.socket(fileno=os.dup(line.fileno())) as end:
                end.shutdown(socket.SHUT_RDWR)

    def wait_until_gone(self) -> None:
        """After `dismiss`: until its job is over, which takes long only where a member is in the middle of a task."""
        self._host.join(PATIENCE)


def hire(context: SparkContext, members: int) -> Crew | None:
    """A crew of as many members; None where they do not come, for the cores are taken."""
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
    """A folder for this user alone, with a path that is short enough for a socket."""
    folder = scratch_folder("crew")
    if len(os.fsencode(folder)) > _LONGEST_FOLDER:
        folder = scratch_folder("crew", "/tmp")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _HostThread(InheritableThread):  # type: ignore[misc]
    """A thread of Spark that says nothing when Spark dies: whoever waits for its workers notices."""

    def run(self) -> None:
        with suppress(Exception):
            super().run()


def _host(context: SparkContext, group: str, address: str, key: bytes, members: int) -> None:
    """The job of the crew; it is over when the last member has gone."""
    with suppress(Exception):  # whoever waits for a member notices that it has died
        context.setJobGroup(group, "workers that stay, and serve epochs", interruptOnCancel=False)
        serving = partial(_hosted, address, key, members)
        context.parallelize(range(members), members).mapPartitionsWithIndex(serving).collect()
    _ring(address, key)  # where members could not even begin, nobody else would come


def _hosted(address: str, key: bytes, members: int, number: int, _: object) -> Iterator[object]:
    serve(address, key, number, members)
    return iter(())


def _has_other_jobs(context: SparkContext, group: str) -> bool:
    tracker = context.statusTracker()
    return not set(tracker.getJobIdsForGroup(group)).issuperset(tracker.getActiveJobsIds())


def _arrived(
    listener: Listener, key: bytes, members: int, cores_are_taken: Callable[[], bool]
) -> dict[int, Connection]:
    """The lines of the members that come in time, by their numbers."""
    lines: dict[int, Connection] = {}
    arrived = threading.Event()
    address = listener.address
    threading.Thread(target=_give_up, args=(arrived, cores_are_taken, address, key), daemon=True).start()
    while len(lines) < members:
        with suppress(EOFError):  # one that came, and died
            line = listener.accept()
            number = line.recv()
            if number == NOBODY:
                break
            lines[number] = line
    arrived.set()
    return lines


def _give_up(arrived: threading.Event, cores_are_taken: Callable[[], bool], address: str, key: bytes) -> None:
    """Wake whoever waits for members when they will not come, or not soon."""
    waited = 0.0
    with suppress(Exception):  # a JVM that has died has no members either
        while waited < STARTING and not arrived.wait(PATIENCE):
            waited += PATIENCE
            if cores_are_taken():
                break
    if not arrived.is_set():
        _ring(address, key)


def _ring(address: str, key: bytes) -> None:
    """Wakes whoever still waits for members: no more will come."""
    with suppress(OSError, EOFError), Client(address, authkey=key) as line:
        line.send(NOBODY)
