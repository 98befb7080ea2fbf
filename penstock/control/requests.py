"""What somebody wants of a run, and how the run gets to know it: requests in the control folder, each answered."""

from __future__ import annotations

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
    FOLDER,
    REQUEST,
    STATUS,
    WATCHED,
    ControlFolder,
    Distrusted,
)
from penstock.control.status import Status

GROUP = r"\A([01]{1,64}|\*)\Z"  # how a group is written
MOST_SITES = 10_000  # a slip of the finger must not drown a run in sites
_NAME = re.compile(r"([0-9a-f]{32})" + re.escape(REQUEST))
_HOUR, _CLOCKS_DIFFER, _STATUS_EVERY, _SIGN_HOLDS = 3600.0, 60.0, 0.25, 3.0  # seconds

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
class SplitRequest:
    """Two groups instead of one, which is written as its bits."""

    group: _Group
    subquery: _Count
    name: str = ""


@dataclass(frozen=True)
class RebalanceRequest:
    """Even out the sites now, of one subquery or of all."""

    subquery: _Count | None = None
    name: str = ""


Request = ScaleRequest | MoveRequest | SplitRequest | RebalanceRequest
KINDS: dict[str, type[Request]] = {
    "scale": ScaleRequest, "move": MoveRequest, "split": SplitRequest, "rebalance": RebalanceRequest,
}  # fmt: skip


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
        self._sign, self._sign_seen = b"", float("-inf")
        for left in (STATUS, WATCHED):  # by a run before, and by who watched it
            self._folder.remove(left)
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

    @property
    def watched(self) -> bool:
        """Whether somebody looks at the status. What is in the sign only has to change: by which clock it was written
        does not matter, and one that was left behind is soon not believed any more."""
        with suppress(OSError, Distrusted):
            if (sign := self._folder.read(WATCHED)) != self._sign:
                self._sign, self._sign_seen = sign, self._clock()
        return 0 <= self._clock() - self._sign_seen < _SIGN_HOLDS

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
