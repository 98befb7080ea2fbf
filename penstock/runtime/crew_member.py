"""A member of a crew: a Spark task that stays, and does the tasks of epoch after epoch as the driver asks for them.

Each partition has its member, so a site finds its runs open, and what a member sends to its own partitions never leaves
the process.
"""

from __future__ import annotations

import traceback
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from multiprocessing.connection import Client, Connection

from pyspark.serializers import CPickleSerializer

from penstock.engine.blob import Blob
from penstock.engine.job import EpochJob, Message, Report, RouteTask
from penstock.engine.level import partition_of, run_level, run_route
from penstock.plan.program import Program
from penstock.runtime.allocator import keep_freed_memory
from penstock.runtime.parcels import Arena, Parcel
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
    """The answer to a request: what is for the driver, and what lies ready for other members."""

    reports: tuple[Report, ...] = ()
    parcels: tuple[Parcel, ...] = ()


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


def _answer_all(line: Connection, member: Member) -> None:
    while True:
        request = line.recv_bytes()
        try:
            answer: Done | Broken | None = member.answer(CPickleSerializer().loads(request))
        except Exception:  # the driver decides what to do about it
            answer = Broken(traceback.format_exc())
        if answer is not None:
            line.send(answer)


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

    def _sent(self, desk: _Desk, messages: Iterable[Message]) -> Done:
        reports: list[Report] = []
        parcels: list[Parcel] = []
        for message in messages:
            if not isinstance(message.content, Blob):
                reports.append(message.content)
            elif member_of(partition := partition_of(message.site, desk.job.width), self._members) == self._number:
                desk.inboxes[message.subquery, partition].append(message)
            else:
                parcels.append(desk.packed(message, message.content))
        return Done(tuple(reports), tuple(parcels))


def member_of(partition: int, members: int) -> int:
    """The member whose partition it is."""
    return partition % members


def _opened(parcels: Iterable[Parcel]) -> Iterator[Message]:
    return (Message(parcel.subquery, parcel.site, parcel.open()) for parcel in parcels)
