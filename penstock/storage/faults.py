"""The registry of fault points: the places where tests inject a crash.

Each point lies between two effects that must appear atomic. Tests iterate over `FaultPoint`, so declaring a point is
enough to have it tested. Outside tests `reach` costs one comparison.

A fault is armed by the environment variable PENSTOCK_FAULT, `point[@n][:action]`: the n-th time (from 1) the point is
reached, the action is taken: `kill` (SIGKILL to this process, the default), `crash` (raise InjectedCrash), `error`
(raise OSError, as a file system does), `full` (raise the OSError of a full disk). A test may pass a function instead,
which is called. PENSTOCK_FAULT_ONCE names a file that is created when the fault fires; while it exists the fault does
not fire again, in no process.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum


class FaultPoint(Enum):
    """Every place where a crash is tested, with what has just happened there."""

    PLANNED = "plan.done"  # the epoch is planned, nothing has run
    ROUTE_READ = "route.read"  # a split has been read, nothing is emitted
    ROUTE_DIVERTED = "route.diverted"  # late or bad rows of a split are staged
    SITE_MERGED = "site.merged"  # a site has merged its blobs, no work is done
    SITE_CLEANED = "site.cleaned"  # missing results of parked state are staged, nothing else is
    SITE_WORKED = "site.worked"  # results are staged, state is not
    RUN_WRITTEN = "run.written"  # a state run is written, perhaps not durable yet; nothing names it
    RUN_TORN = "run.torn"  # a state run is half written
    SITE_DONE = "site.done"  # all files of the site are written, perhaps not durable yet; nothing names them
    JOB_DONE = "job.done"  # all tasks have ended, nothing is committed
    MANIFEST_STAGED = "manifest.staged"  # the manifest is durable under a temporary name
    MANIFEST_LINKED = "manifest.linked"  # the manifest is visible, the driver does not know yet
    COMMITTED = "manifest.done"  # the epoch is committed, nothing is published
    PUBLISH_NOTED = "publish.noted"  # the name of a file that is about to be published is noted
    PUBLISHED_ONE = "publish.one"  # one file is published, more may follow
    RECORDED = "publish.recorded"  # the record of an output says that the epoch is published
    PUBLISHED = "publish.done"  # all results are visible, nothing is collected
    COLLECTED_ONE = "gc.one"  # one unnamed file is deleted, more may follow
    COLLECTED = "gc.done"  # the epoch is over
    CLAIM_STAGED = "claim.staged"  # the first record of an output is durable under a temporary name
    CLAIM_LINKED = "claim.linked"  # an output has its first record, its name may not be durable yet
    RECOVERED = "recover.done"  # a restarted driver holds the newest manifest, nothing has run


class InjectedCrash(BaseException):
    """A simulated death of the process. Not an Exception, because only the test may catch it."""


@dataclass
class _Fault:
    """An armed fault."""

    point: FaultPoint
    countdown: int
    action: str | Callable[[], None]


_armed: _Fault | None = None
_read_environment = False


def arm(point: FaultPoint, nth: int = 1, action: str | Callable[[], None] = "crash") -> None:
    """Arm a fault in this process."""
    global _armed
    _armed = _Fault(point, nth, action)


def disarm() -> None:
    """Remove the armed fault of this process."""
    global _armed
    _armed = None


def reach(point: FaultPoint) -> None:
    """Mark that execution is at `point`; fires the fault that is armed there."""
    global _read_environment
    if not _read_environment:
        _read_environment = True
        _arm_from_environment()
    if _armed is not None and _armed.point is point:
        _count_down(_armed)


def _arm_from_environment() -> None:
    if text := os.environ.get("PENSTOCK_FAULT"):
        place, _, action = text.partition(":")
        name, _, nth = place.partition("@")
        arm(FaultPoint(name), int(nth or 1), action or "kill")


def _count_down(fault: _Fault) -> None:
    fault.countdown -= 1
    if fault.countdown == 0 and _claim_marker():
        _fire(fault)


def _claim_marker() -> bool:
    """Return whether the fault may fire: without a marker file always, otherwise once over all processes."""
    marker = os.environ.get("PENSTOCK_FAULT_ONCE")
    if not marker:
        return True
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def _fire(fault: _Fault) -> None:
    if not isinstance(fault.action, str):
        return fault.action()
    match fault.action:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "full":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        case "error":
            raise OSError(f"injected fault at {fault.point.value}")
        case _:
            raise InjectedCrash(fault.point.value)
