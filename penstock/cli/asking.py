"""Client side of the control protocol: write a request into the control folder of a run and wait for the answer."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import asdict

import msgspec

from penstock.control.folder import (
    ANSWER,
    MOST_OF_RUN,
    REQUEST,
    STATUS,
    WATCHED,
    ControlFolder,
    UntrustedFile,
    refuse_other_format,
)
from penstock.control.requests import KINDS, Answer, Request, RequestFile
from penstock.control.status import Status
from penstock.errors import CheckpointError

_LOOK_EVERY, _RENEW_EVERY = 0.05, 1.0  # seconds


def ask(folder: ControlFolder, request: Request) -> str:
    """Write a request for the run and return the name of the request."""
    name = uuid.uuid4().hex
    kind = next(kind for kind, known in KINDS.items() if isinstance(request, known))
    wants = {field: value for field, value in asdict(request).items() if field != "name"}
    folder.write(name + REQUEST, msgspec.json.encode(RequestFile(kind, time.time(), wants)))
    return name


def wait_for(folder: ControlFolder, name: str, seconds: float, alive: Callable[[], bool]) -> Answer:
    """Wait up to `seconds` for the answer of the run. If none arrives the request is withdrawn, so that the run cannot
    carry it out later."""
    try:
        return _waited(folder, name, seconds, alive)
    except KeyboardInterrupt:
        folder.remove(name + REQUEST)
        raise


def _waited(folder: ControlFolder, name: str, seconds: float, alive: Callable[[], bool]) -> Answer:
    deadline = time.monotonic() + seconds
    while (answer := answer_to(folder, name)) is None:
        late, ended = time.monotonic() >= deadline, not alive()
        if late or ended:
            return _given_up(folder, name, "the run has ended" if ended else f"the run did not answer in {seconds:g} s")
        time.sleep(_LOOK_EVERY)
    return answer


def _given_up(folder: ControlFolder, name: str, why: str) -> Answer:
    """Withdraw a request; return its answer if that has just arrived, otherwise raise."""
    withdrawn = folder.remove(name + REQUEST)
    if (answer := answer_to(folder, name)) is not None:  # it arrived just now
        return answer
    if withdrawn:
        raise CheckpointError(f"nothing was done: {why}", detail="the request is withdrawn", hint="try again")
    raise CheckpointError(
        f"the outcome is not known: {why}",
        detail="the run has received the request, and has not answered it",
        hint="look with `penstock top` before you try again",
    )


def answer_to(folder: ControlFolder, name: str) -> Answer | None:
    """Read and remove the answer to a request; None if there is none yet."""
    try:
        answer = msgspec.json.decode(folder.read(name + ANSWER, MOST_OF_RUN), type=Answer)
    except FileNotFoundError:
        return None
    except (UntrustedFile, msgspec.DecodeError) as error:
        raise CheckpointError(
            "the answer of the run cannot be read", detail=str(error), hint="look with `penstock top`"
        ) from error
    folder.remove(name + ANSWER)
    return answer


class Watching:
    """Tells a run that its status is being watched, as long as `renew` is called; then the run publishes more of it."""

    def __init__(self, folder: ControlFolder) -> None:
        self._folder, self._renewed = folder, float("-inf")

    def __enter__(self) -> Watching:
        self.renew()
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.remove(WATCHED)  # another watcher writes it again

    def renew(self) -> None:
        """Write the sign again; does nothing if it was written a moment ago."""
        if time.monotonic() - self._renewed >= _RENEW_EVERY:
            self._renewed = time.monotonic()
            self._folder.write(WATCHED, msgspec.json.encode(uuid.uuid4().hex))


def read_status(folder: ControlFolder) -> Status | None:
    """Read the latest status of the run; None before the first."""
    try:
        data = folder.read(STATUS, MOST_OF_RUN)
        refuse_other_format(data)
        return msgspec.json.decode(data, type=Status)
    except FileNotFoundError:
        return None
    except (UntrustedFile, msgspec.DecodeError) as error:
        raise CheckpointError(
            "the status of the run cannot be read", detail=str(error), hint="use the version of Penstock that runs it"
        ) from error
