"""A member of a crew: a Spark task that stays, and does the tasks of epoch after epoch as the driver asks for them.

Each partition has its member, so a site finds its runs open, and what a member sends to its own partitions never leaves
the process.
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

from penstock.engine.task.level import partition_of, run_level, run_route
from penstock.engine.wire.blob import Blob
from penstock.engine.wire.job import EpochJob, Message, Report, RouteTask, SiteReport
from penstock.plan.program import Program
from penstock.spark.workers.allocator import keep_freed_memory
from penstock.spark.workers.transport import Arena, Parcel
from penstock.state.directory import Directory


@dataclass(frozen=True)
class Shared:
    """What jobs have in common for long: it travels once."""

    program: Program
    directories: tuple[Directory, ...]

    def is_that_of(self, job: EpochJob) -> bool:
        return self.program is job.program and self.directories is job.directories

    def without(self, job: EpochJob) -> EpochJob:
        return replace(job, program=None, directories=None)  # type: ignore[arg-type]

    def into(self, job: EpochJob) -> EpochJob:
        return replace(job, program=self.program, directories=self.directories)


@dataclass(frozen=True)
class Begin:
    """An epoch gets a desk, or its job anew; all desks but that and the one to `keep` are cleared away. `shared` is
    missing where it is the one of before. This is the only request without an answer, unless it fails."""

    desk: str
    job: EpochJob
    shared: Shared | None
    keep: str | None = None


@dataclass(frozen=True)
class Route:
    desk: str
    task: RouteTask


@dataclass(frozen=True)
class Level:
    """Run the site of a subquery that is `partition`, with what others have sent to it."""

    desk: str
    subquery: int
    partition: int
    parcels: tuple[Parcel, ...]


Request = Begin | Route | Level


@dataclass(frozen=True)
class Done:
    """The answer to a request: what is for the driver, and what lies ready for other members. Unless it is `settled`,
    another one follows when the files that the reports name are durable; meanwhile the member is free."""

    reports: tuple[Report, ...] = ()
    parcels: tuple[Parcel, ...] = ()
    settled: bool = True


@dataclass(frozen=True)
class Settled:
    """What follows. It has reports where something went wrong."""

    reports: tuple[Report, ...] = ()


@dataclass(frozen=True)
class Broken:
    """The answer of a member to which something has happened that it does not know."""

    trace: str


def serve(address: str, key: bytes, number: int, members: int) -> None:
    """Do what the driver asks until it hangs up."""
    keep_freed_memory()
    try:
        with Client(address, authkey=key) as line:
            line.send(number)
            _answer_all(line, Member(number, members))
    except (EOFError, OSError):
        return  # the driver has gone, or no longer wants this crew


def _answer_all(connection: Connection, member: Member) -> None:
    line = _Line(connection)
    while True:
        request = connection.recv_bytes()
        line.send(partial(_answer, member, request))
        if rest := member.unsettled():
            line.send_later(partial(_settled, rest))


def _answer(member: Member, request: bytes) -> Done | None:
    return member.answer(CPickleSerializer().loads(request))


class _Line:
    """The member's end of a line. Invariant: answers of two threads do not mix, and what is sent later comes after
    what was sent at once."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._lock = connection, threading.Lock()
        self._later = ThreadPoolExecutor(1, thread_name_prefix="penstock-settle")

    def send(self, work: Callable[[], Done | Settled | None]) -> None:
        """What the work gives; if it fails, the driver decides what to do about it."""
        try:
            answer: Done | Settled | Broken | None = work()
        except Exception:
            answer = Broken(traceback.format_exc())
        if answer is not None:
            with self._lock:
                self._connection.send(answer)

    def send_later(self, work: Callable[[], Settled]) -> None:
        self._later.submit(self.send, work)


def _settled(rest: Iterator[Message]) -> Settled:
    """Files become durable while the messages come to an end."""
    return Settled(tuple(message.content for message in rest if not isinstance(message.content, Blob)))


class _Desk:
    """What a member has of an epoch. Invariant: `inboxes` holds what it has sent to its own partitions, by subquery and
    partition, until it is used."""

    def __init__(self, job: EpochJob) -> None:
        self.job = job
        self.inboxes: dict[tuple[int, int], list[Message]] = defaultdict(list)
        self._arena: Arena | None = None

    def packed(self, message: Message, blob: Blob) -> Parcel:
        self._arena = self._arena or Arena()
        return self._arena.pack(message.subquery, message.site, blob)

    def clear_away(self) -> None:
        if self._arena is not None:
            self._arena.close()


class Member:
    def __init__(self, number: int, members: int) -> None:
        self._number, self._members = number, members
        self._shared: Shared | None = None
        self._desks: dict[str, _Desk] = {}
        self._rest: Iterator[Message] | None = None

    def unsettled(self) -> Iterator[Message] | None:
        """What is left of the last answer; once."""
        rest, self._rest = self._rest, None
        return rest

    def answer(self, request: Request) -> Done | None:
        match request:
            case Begin():
                self._begin(request)
                return None
            case Route(desk, task):
                return self._sent(here := self._desks[desk], run_route(here.job, task))
            case Level(desk, subquery, partition, parcels):
                here = self._desks[desk]
                inbox = [*here.inboxes.pop((subquery, partition), []), *_opened(parcels)]
                return self._sent(here, run_level(here.job, subquery, partition, inbox))

    def _begin(self, begin: Begin) -> None:
        self._shared = begin.shared or self._shared
        assert self._shared is not None, "the first epoch comes with all"
        job = self._shared.into(begin.job)
        for name in self._desks.keys() - {begin.desk, begin.keep}:
            self._desks.pop(name).clear_away()
        self._desks.setdefault(begin.desk, _Desk(job)).job = job

    def _sent(self, desk: _Desk, messages: Iterator[Message]) -> Done:
        reports: list[Report] = []
        parcels: list[Parcel] = []
        for message in messages:
            if not isinstance(message.content, Blob):
                reports.append(message.content)
                if isinstance(message.content, SiteReport):  # the last message: only its files are to be waited for
                    self._rest = messages
                    break
            elif member_of(partition := partition_of(message.site, desk.job.width), self._members) == self._number:
                desk.inboxes[message.subquery, partition].append(message)
            else:
                parcels.append(desk.packed(message, message.content))
        return Done(tuple(reports), tuple(parcels), settled=self._rest is None)


def member_of(partition: int, members: int) -> int:
    """The member whose partition it is."""
    return partition % members


def _opened(parcels: Iterable[Parcel]) -> Iterator[Message]:
    return (Message(parcel.subquery, parcel.site, parcel.open()) for parcel in parcels)
