"""Requests to a run: files in the control folder, each of which the run answers."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec

from penstock.control.folder import (
    ANSWER,
    CONTROL_FORMAT,
    FOLDER,
    REQUEST,
    STATUS,
    WATCHED,
    ControlFolder,
    UntrustedFile,
    refuse_other_format,
)
from penstock.control.status import Status
from penstock.settings import MOST_SITES

_log = logging.getLogger(__name__)

GROUP = r"\A([01]{1,64}|\*)\Z"  # a group as its bits
_NAME = re.compile(r"([0-9a-f]{32})" + re.escape(REQUEST))
_HOUR, _CLOCKS_DIFFER, _STATUS_EVERY, _SIGN_HOLDS = 3600.0, 60.0, 0.25, 3.0  # seconds

_Count = Annotated[int, msgspec.Meta(ge=0)]
_Sites = Annotated[int, msgspec.Meta(ge=1, le=MOST_SITES)]
_Group = Annotated[str, msgspec.Meta(pattern=GROUP)]


@dataclass(frozen=True)
class ScaleRequest:
    """Change the number of sites, of one subquery or of all. `name` is that of the request's file."""

    sites: _Sites
    subquery: _Count | None = None
    name: str = ""


@dataclass(frozen=True)
class MoveRequest:
    """Move a group, given as its bits, to another site."""

    group: _Group
    site: _Count
    subquery: _Count
    name: str = ""


@dataclass(frozen=True)
class SplitRequest:
    """Split a group, given as its bits, into two."""

    group: _Group
    subquery: _Count
    name: str = ""


@dataclass(frozen=True)
class RebalanceRequest:
    """Level the sites now, of one subquery or of all."""

    subquery: _Count | None = None
    name: str = ""


Request = ScaleRequest | MoveRequest | SplitRequest | RebalanceRequest
KINDS: dict[str, type[Request]] = {
    "scale": ScaleRequest, "move": MoveRequest, "split": SplitRequest, "rebalance": RebalanceRequest,
}  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """The outcome of a request: `why_not` is the reason why it was refused, None if it was carried out."""

    why_not: str | None
    detail: str = ""


@dataclass(frozen=True)
class RequestFile:
    """The content of a request's file. `made` is the time of the request, in seconds since 1970."""

    kind: str
    made: float
    wants: dict[str, Any]
    format: int = CONTROL_FORMAT


class Control:
    """The run's side of the control folder: it takes requests and publishes the status. Used by one thread. `began` is
    the start of the run, in seconds since 1970.

    Invariant: a request is removed from the folder before `requests` returns it, so that it is carried out at most
    once, whatever crashes. A request older than an hour, or older than the run, is never returned.
    """

    def __init__(self, checkpoint: Path, began: float, clock: Callable[[], float] = time.time) -> None:
        with suppress(FileExistsError):
            os.mkdir(checkpoint / FOLDER, 0o700)
        self._folder, self._began, self._clock = ControlFolder(checkpoint), began, clock
        self._published = float("-inf")
        self._sign, self._sign_seen = b"", float("-inf")
        for left in (STATUS, WATCHED):  # left by an earlier run, and by the process that watched it
            self._folder.remove(left)
        self._folder.sweep(clock() - _HOUR)

    def close(self) -> None:
        self._folder.close()

    def requests(self) -> list[Request]:
        """Return the requests to carry out now, oldest first. Each must be answered."""
        names = [match[1] for name in self._folder.names() if (match := _NAME.fullmatch(name))]
        if not names:
            return []
        self._folder.sweep(self._clock() - _HOUR)
        taken = [one for name in names if (one := self._taken(name)) is not None]
        return [request for _, _, request in sorted(taken, key=lambda one: one[:2])]

    def _taken(self, name: str) -> tuple[float, str, Request] | None:
        """Return a request with its time and name; None if it is not to be carried out."""
        try:
            content = self._content(name + REQUEST)
            self._refuse_old(content)
            return content.made, name, _request(content, name)
        except FileNotFoundError:
            return None  # the request was withdrawn
        except UntrustedFile as why:
            self._answer(name, Answer(str(why)))
            return None

    def _content(self, file: str) -> RequestFile:
        """Read a request's file and remove it, whatever it contains. Raises FileNotFoundError if it cannot be removed,
        because it could then be carried out twice."""
        try:
            return _decoded(self._folder.read(file))
        finally:
            if not self._folder.remove(file):
                raise FileNotFoundError(file)

    def _refuse_old(self, content: RequestFile) -> None:
        """Raise UntrustedFile for a request made before the run, too long ago, or in the future."""
        if content.made < self._began:
            raise UntrustedFile("too old: it was made before this run started")
        age = self._clock() - content.made
        if age > _HOUR:
            raise UntrustedFile("too old: it was made more than an hour ago")
        if age < -_CLOCKS_DIFFER:
            raise UntrustedFile("it was made in the future: the clocks of the two hosts differ")

    def answer(self, request: Request, why_not: str | None, detail: str = "") -> None:
        """Answer a request; `why_not` None means that it was carried out."""
        self._answer(request.name, Answer(why_not, detail))

    def _answer(self, name: str, answer: Answer) -> None:
        try:
            self._folder.write(name + ANSWER, msgspec.json.encode(answer))
        except OSError as error:  # must not end the run
            _log.warning("the answer to a request cannot be written: %s", error)

    @property
    def status_due(self) -> bool:
        """Return whether the last status is old enough to publish another."""
        return not 0 <= self._clock() - self._published < _STATUS_EVERY

    @property
    def watched(self) -> bool:
        """Return whether the status is watched. Only a change of the watch file counts, not the time in it:
        clocks may differ, and a file that was left behind expires."""
        with suppress(OSError, UntrustedFile):
            if (sign := self._folder.read(WATCHED)) != self._sign:
                self._sign, self._sign_seen = sign, self._clock()
        return 0 <= self._clock() - self._sign_seen < _SIGN_HOLDS

    def publish(self, status: Status) -> None:
        """Publish a status. Ignored if the last one is too recent, which `status_due` tells in advance."""
        if self.status_due:
            self._published = self._clock()
            try:
                self._folder.write(STATUS, msgspec.json.encode(status))
            except OSError as error:  # must not end the run
                _log.debug("the status cannot be written: %s", error)


def _decoded(data: bytes) -> RequestFile:
    try:
        refuse_other_format(data)
        return msgspec.json.decode(data, type=RequestFile)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UntrustedFile(f"it is not a request: {error}") from error


def _request(content: RequestFile, name: str) -> Request:
    kind = KINDS.get(content.kind)
    if kind is None:
        raise UntrustedFile(f"unknown request `{content.kind}`; known: {', '.join(KINDS)}")
    try:
        return replace(msgspec.convert(content.wants, kind), name=name)
    except msgspec.ValidationError as error:
        raise UntrustedFile(f"it is not a request to {content.kind}: {error}") from error
