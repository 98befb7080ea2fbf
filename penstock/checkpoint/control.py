"""The control folder of a checkpoint: how somebody steers and watches a run from outside of it.

control/
  <name>.request.json    what somebody wants; the run removes it before it does anything about it
  <name>.answer.json     what came of it; whoever asked removes it
  status.json            how the run is getting on

Only the owner of the checkpoint may: a folder or file that belongs to another user, or that others can write to, is not
believed. Links are not followed; what is read is plain JSON of bounded size, under names that are known.
"""

from __future__ import annotations

import os
import re
import stat
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec

from penstock.errors import CheckpointError

FOLDER, STATUS = "control", "status.json"
GROUP = r"\A([01]{1,64}|\*)\Z"  # how a group is written
MOST_SITES = 10_000  # a slip of the finger must not drown a run in sites
REQUEST, ANSWER = ".request.json", ".answer.json"
_NAME = re.compile(r"([0-9a-f]{32})" + re.escape(REQUEST))
_LEFT_BEHIND = re.compile(r"[0-9a-f]{32}" + re.escape(ANSWER) + r"|\.[0-9a-f]{32}\.new")
MOST_BYTES, MOST_OF_RUN = 4096, 16 * 2**20  # of a request; of what the run writes
_HOUR, _CLOCKS_DIFFER, _STATUS_EVERY = 3600.0, 60.0, 0.25  # seconds

_Count = Annotated[int, msgspec.Meta(ge=0)]
_Sites = Annotated[int, msgspec.Meta(ge=1, le=MOST_SITES)]
_Group = Annotated[str, msgspec.Meta(pattern=GROUP)]


@dataclass(frozen=True)
class ScaleRequest:
    """Another number of sites, for one subquery or for all. `name` is that of the request's file."""

    sites: _Sites
    subquery: _Count | None = None
    name: str = ""


@dataclass(frozen=True)
class MoveRequest:
    """Another home for a group, which is written as its bits."""

    group: _Group
    site: _Count
    subquery: _Count
    name: str = ""


@dataclass(frozen=True)
class RebalanceRequest:
    """Even out the sites now, of one subquery or of all."""

    subquery: _Count | None = None
    name: str = ""


Request = ScaleRequest | MoveRequest | RebalanceRequest
KINDS: dict[str, type[Request]] = {"scale": ScaleRequest, "move": MoveRequest, "rebalance": RebalanceRequest}


@dataclass(frozen=True)
class Answer:
    """What came of a request: `why_not` is the reason why nothing was done, None where it was."""

    why_not: str | None
    detail: str = ""


@dataclass(frozen=True)
class Letter:
    """The content of a request's file. `made` is when, in seconds since 1970."""

    kind: str
    made: float
    wants: dict[str, Any]


@dataclass(frozen=True)
class SiteStatus:
    """`utilisation` is the part of its share of the time that the site is busy, `backlog` its pending rows."""

    rows_per_second: float
    utilisation: float
    backlog: float
    state_bytes: int
    groups: int


@dataclass(frozen=True)
class GroupStatus:
    """`group` is written as its bits; `utilisation` is its part of that of its site."""

    group: str
    site: int
    rows_per_second: float
    utilisation: float
    pending: int
    state_bytes: int


@dataclass(frozen=True)
class SubqueryStatus:
    """Invariant: `sites` are in order of their numbers, `hottest` begins with the hottest group. `capacity` is the rows
    that may be pending at a site (0: no bound)."""

    name: str
    sites: tuple[SiteStatus, ...]
    hottest: tuple[GroupStatus, ...] = ()
    capacity: int = 0


@dataclass(frozen=True)
class DecisionStatus:
    """What was decided after an epoch, and why; the gain that was predicted and measured, as parts; `refused` is the
    rule that it would have broken."""

    epoch: int
    subquery: int
    what: str
    why: str
    predicted: float | None = None
    measured: float | None = None
    refused: str | None = None


@dataclass(frozen=True)
class Status:
    """How a run is getting on. Invariant: subqueries are in order of their numbers, the newest decision is the last.
    `began` and `at` are seconds since 1970: when the run began, and when this was true."""

    query: str
    fingerprint: str
    epoch: int
    began: float
    at: float
    rows_in_per_second: float
    rows_out_per_second: float
    waiting: int
    low_water_mark: datetime | int | None
    subqueries: tuple[SubqueryStatus, ...]
    decisions: tuple[DecisionStatus, ...] = ()


class Distrusted(Exception):
    """A file that is not to be believed, and why."""


class ControlFolder:
    """Invariant: when it was opened, the folder belonged to this user and nobody else could write to it. All names are
    looked up in that folder, wherever its path may lead later."""

    def __init__(self, checkpoint: Path) -> None:
        self.path = checkpoint / FOLDER
        try:
            self._descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:
            raise _no_folder(self.path) from None
        except OSError as error:
            raise _refused(self.path, f"it cannot be opened as a folder: {error.strerror}") from None
        if (why := _unsafe(os.fstat(self._descriptor))) is not None:
            self.close()
            raise _refused(self.path, why)

    def close(self) -> None:
        os.close(self._descriptor)

    def names(self) -> list[str]:
        """None where it cannot be read: a run does not end because nobody can ask it for anything."""
        with suppress(OSError), os.scandir(self._descriptor) as entries:
            return [entry.name for entry in entries]
        return []

    def read(self, name: str, most: int = MOST_BYTES) -> bytes:
        """A file of at most so many bytes; raises Distrusted. Without O_NONBLOCK a pipe would never be opened."""
        try:
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=self._descriptor)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise Distrusted(f"it cannot be opened: {error.strerror}") from error
        try:
            return _content(file, most)
        finally:
            os.close(file)

    def write(self, name: str, data: bytes) -> None:
        """The whole file at once, in place of one that is there. Not durable: it is for those who live now."""
        staged = f".{uuid.uuid4().hex}.new"
        file = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=self._descriptor)
        try:
            with os.fdopen(file, "wb") as writing:
                writing.write(data)
            os.rename(staged, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        except BaseException:
            self.remove(staged)
            raise

    def remove(self, name: str) -> bool:
        """Whether it was there, and is not any more."""
        try:
            os.unlink(name, dir_fd=self._descriptor)
        except OSError:
            return False
        return True

    def sweep(self, before: float) -> None:
        """Remove what dead processes and people who did not wait have left behind."""
        for name in filter(_LEFT_BEHIND.fullmatch, self.names()):
            with suppress(OSError):
                if os.stat(name, dir_fd=self._descriptor, follow_symlinks=False).st_mtime < before:
                    self.remove(name)


def _content(file: int, most: int) -> bytes:
    about = os.fstat(file)
    if (why := _unsafe(about) if stat.S_ISREG(about.st_mode) else "it is not a plain file") is not None:
        raise Distrusted(why)
    data = os.read(file, most + 1)
    if len(data) > most:
        raise Distrusted(f"it has more than {most:,} bytes")
    return data


def _unsafe(about: os.stat_result) -> str | None:
    if about.st_uid != os.geteuid():
        return "it belongs to another user"
    return "others can write to it" if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH) else None


def _refused(path: Path, why: str) -> CheckpointError:
    return CheckpointError(
        "the control folder of this checkpoint cannot be trusted",
        detail=f"{path}: {why}",
        hint="only the owner of a checkpoint steers its run; if that is you, remove the folder and start the run again",
    )


def _no_folder(path: Path) -> CheckpointError:
    return CheckpointError(
        "nobody looks for requests here", detail=f"there is no {path}", hint="a run makes it when it starts: try again"
    )


class Control:
    """The requests that a run gets, and the status that it shows; used by one thread. `began` is when the run did.

    Invariant: a request is gone from the folder before `requests` gives it out, so whatever dies, it is carried out at
    most once. One that is older than an hour, or than the run, is never given out.
    """

    def __init__(self, checkpoint: Path, began: float, clock: Callable[[], float] = time.time) -> None:
        with suppress(FileExistsError):
            os.mkdir(checkpoint / FOLDER, 0o700)
        self._folder, self._began, self._clock = ControlFolder(checkpoint), began, clock
        self._published = float("-inf")
        self._folder.remove(STATUS)  # that of a run before
        self._folder.sweep(clock() - _HOUR)

    def close(self) -> None:
        self._folder.close()

    def requests(self) -> list[Request]:
        """What is to be done now, in the order in which it was asked for; each is to be answered."""
        names = [match[1] for name in self._folder.names() if (match := _NAME.fullmatch(name))]
        if not names:
            return []
        self._folder.sweep(self._clock() - _HOUR)
        taken = [one for name in names if (one := self._taken(name)) is not None]
        return [request for _, _, request in sorted(taken, key=lambda one: one[:2])]

    def _taken(self, name: str) -> tuple[float, str, Request] | None:
        """The request, with the time it was made; None where it is not to be carried out."""
        try:
            letter = self._letter(name + REQUEST)
            self._refuse_old(letter)
            return letter.made, name, _request(letter, name)
        except FileNotFoundError:
            return None  # it was withdrawn
        except Distrusted as why:
            self._answer(name, Answer(str(why)))
            return None

    def _letter(self, file: str) -> Letter:
        """The file goes, whatever is in it. One that cannot be removed could be carried out twice, so it does not
        count as there."""
        try:
            return _decoded(self._folder.read(file))
        finally:
            if not self._folder.remove(file):
                raise FileNotFoundError(file)

    def _refuse_old(self, letter: Letter) -> None:
        if letter.made < self._began:
            raise Distrusted("too old: it was made before this run began")
        age = self._clock() - letter.made
        if age > _HOUR:
            raise Distrusted("too old: it was made more than an hour ago")
        if age < -_CLOCKS_DIFFER:
            raise Distrusted("it was made in the future: the clocks of the two hosts differ")

    def answer(self, request: Request, why_not: str | None, detail: str = "") -> None:
        self._answer(request.name, Answer(why_not, detail))

    def _answer(self, name: str, answer: Answer) -> None:
        with suppress(OSError):  # a run does not end because somebody cannot be told
            self._folder.write(name + ANSWER, msgspec.json.encode(answer))

    @property
    def status_due(self) -> bool:
        """Whether the last status is old enough for another."""
        return not 0 <= self._clock() - self._published < _STATUS_EVERY

    def publish(self, status: Status) -> None:
        """Show a status. One that comes too soon after another is left out: `status_due` tells beforehand."""
        if self.status_due:
            self._published = self._clock()
            with suppress(OSError):  # or because nobody can watch it
                self._folder.write(STATUS, msgspec.json.encode(status))


def _decoded(data: bytes) -> Letter:
    try:
        return msgspec.json.decode(data, type=Letter)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Distrusted(f"it is not a request: {error}") from error


def _request(letter: Letter, name: str) -> Request:
    kind = KINDS.get(letter.kind)
    if kind is None:
        raise Distrusted(f"this run knows no `{letter.kind}`; it knows {', '.join(KINDS)}")
    try:
        return replace(msgspec.convert(letter.wants, kind), name=name)
    except msgspec.ValidationError as error:
        raise Distrusted(f"it is not a request to {letter.kind}: {error}") from error
