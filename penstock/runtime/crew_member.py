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


@dataclass(frozen=True)
class Begin:
    """An epoch begins; whatever is left of the one before is void. Without a program, it is the one of before. This is
    the only request without an answer, unless it fails."""

    job: EpochJob
    program: Program | None


@dataclass(frozen=True)
class Route:
    task: RouteTask


@dataclass(frozen=True)
class Level:
    """Run the site of a subquery that is `partition`, with what others have sent to it."""

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


class Member:
    """Invariant: `_inboxes` holds what this member has sent to its own partitions in this epoch, by subquery and
    partition, until it is used."""

    def __init__(self, number: int, members: int) -> None:
        self._number, self._members = number, members
        self._job: EpochJob | None = None
        self._arena: Arena | None = None
        self._inboxes: dict[tuple[int, int], list[Message]] = defaultdict(list)

    def answer(self, request: Request) -> Done | None:
        match request:
            case Begin(job, program):
                self._begin(job, program)
                return None
            case Route(task):
                return self._sent(run_route(self._running, task))
            case Level(subquery, partition, parcels):
                inbox = [*self._inboxes.pop((subquery, partition), []), *_opened(parcels)]
                return self._sent(run_level(self._running, subquery, partition, inbox))

    def _begin(self, job: EpochJob, program: Program | None) -> None:
        self._job = replace(job, program=program or self._running.program)
        self._inboxes.clear()
        if self._arena is not None:
            self._arena.close()
        self._arena = None

    @property
    def _running(self) -> EpochJob:
        assert self._job is not None, "an epoch begins first"
        return self._job

    def _sent(self, messages: Iterable[Message]) -> Done:
        reports: list[Report] = []
        parcels: list[Parcel] = []
        for message in messages:
            if not isinstance(message.content, Blob):
                reports.append(message.content)
            elif member_of(partition := partition_of(message.site, self._running.width), self._members) == self._number:
                self._inboxes[message.subquery, partition].append(message)
            else:
                parcels.append(self._packed(message, message.content))
        return Done(tuple(reports), tuple(parcels))

    def _packed(self, message: Message, blob: Blob) -> Parcel:
        self._arena = self._arena or Arena()
        return self._arena.pack(message.subquery, message.site, blob)


def member_of(partition: int, members: int) -> int:
    """The member whose partition it is."""
    return partition % members


def _opened(parcels: Iterable[Parcel]) -> Iterator[Message]:
    return (Message(parcel.subquery, parcel.site, parcel.open()) for parcel in parcels)
