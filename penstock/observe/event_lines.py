"""Log lines of a run: its start, its events, its end. Every event passes through `log_events`, so that an event and its
line cannot differ."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple, assert_never

from penstock.errors import PenstockError
from penstock.events import (
    ChangeMeasured,
    ChangeRefused,
    DirectoryChanged,
    DiskFull,
    DiskPressure,
    EpochCommitted,
    EpochDropped,
    EpochTimed,
    Event,
    JoinExplodes,
    Rebalanced,
    RunFinished,
    RunRecovered,
    SparkStarting,
    WorkerDied,
)
from penstock.observe.log import SHOWN
from penstock.units import size_text

_API = logging.getLogger("penstock.api")
_BALANCE = logging.getLogger("penstock.balance")
_CHECKPOINT = logging.getLogger("penstock.checkpoint")
_ENGINE = logging.getLogger("penstock.engine")
_SPARK = logging.getLogger("penstock.spark")


class EventLine(NamedTuple):
    """The message of an event, and the reason that the line has as a field of its own; None if it has none."""

    message: str
    reason: str | None = None


def log_start(checkpoint: Path, query_id: str, epoch: int, master: str) -> None:
    """Write the line of a run that starts after an epoch. `query_id` stays the same for the life of the checkpoint."""
    extra = {"query": checkpoint.name, "query_id": query_id, "checkpoint": str(checkpoint), "epoch": epoch}
    _API.info("the run starts after epoch %d, on %s, checkpoint %s", epoch, master, checkpoint, extra=extra)


def log_end(query: str, epoch: int, state: str, error: BaseException | None) -> None:
    """Write the line of a run that has ended, with the error if one has ended it."""
    if error is None:
        _API.info("the run has %s after epoch %d", state, epoch, extra={"query": query, "epoch": epoch})
        return
    what, reason = (error.what, error.detail) if isinstance(error, PenstockError) else (repr(error), "")
    extra = {"query": query, "epoch": epoch, "reason": reason or what, SHOWN: isinstance(error, PenstockError)}
    trace = None if isinstance(error, PenstockError) else error
    _API.error("the run has failed after epoch %d: %s", epoch, what, extra=extra, exc_info=trace)


def log_events(query: str) -> Callable[[Event], None]:
    """Return a listener that writes a log line for each event of the query named `query`."""

    def log(event: Event) -> None:
        logger, level = _place(event)
        if logger.isEnabledFor(level):
            line = _line(event)
            logger.log(level, "%s", line.message, extra=_fields(event, query, line.reason))

    return log


def _place(event: Event) -> tuple[logging.Logger, int]:
    """Return the logger of an event, that of the package it is about, and the level of its line."""
    match event:
        case EpochCommitted() | RunFinished():
            return _ENGINE, logging.INFO
        case EpochTimed():
            return _ENGINE, logging.DEBUG
        case EpochDropped(again=again):
            return _ENGINE, logging.WARNING if again else logging.ERROR
        case DiskFull() | JoinExplodes():
            return _ENGINE, logging.WARNING
        case DiskPressure(begins=begins):
            return _ENGINE, logging.WARNING if begins else logging.INFO
        case DirectoryChanged() | ChangeRefused() | ChangeMeasured() | Rebalanced():
            return _BALANCE, logging.INFO
        case WorkerDied():
            return _SPARK, logging.WARNING
        case SparkStarting():
            return _SPARK, logging.INFO
        case RunRecovered():
            return _CHECKPOINT, logging.INFO
    assert_never(event)


def _line(event: Event) -> EventLine:
    """Return the message of an event and its reason."""
    match event:
        case EpochCommitted() | EpochTimed() | EpochDropped() | DiskFull() | WorkerDied():
            return _line_of_epoch(event)
        case DiskPressure():
            return _line_of_pressure(event)
        case DirectoryChanged() | ChangeRefused() | ChangeMeasured() | Rebalanced():
            return _line_of_decision(event)
        case JoinExplodes():
            return EventLine(f"epoch {event.epoch}: {str(event).removeprefix('warning: ')}")
        case SparkStarting(master):
            return EventLine(f"starting Spark on {master}, or connecting to it")
        case RunRecovered(epoch, changed):
            sites = ", on another number of sites" if changed else ""
            why = f"its checkpoint holds epoch {epoch}"
            return EventLine(f"the run continues after epoch {epoch}{sites}: {why}", why)
        case RunFinished(epoch):
            return EventLine(f"the query has finished with epoch {epoch}: all input is read")
    assert_never(event)


def _line_of_epoch(event: EpochCommitted | EpochTimed | EpochDropped | DiskFull | WorkerDied) -> EventLine:
    match event:
        case EpochCommitted():
            rows = (
                f"{event.rows_in:,} rows in, {event.rows_out:,} out, {event.late_rows:,} late, {event.bad_rows:,} bad"
            )
            return EventLine(f"epoch {event.epoch} is committed: {rows}, {event.seconds:.3f} s")
        case EpochTimed(epoch, seconds, driver, tasks):
            steps = ", ".join(f"{step} {spent:.4f}" for step, spent in driver.items())
            return EventLine(f"epoch {epoch} took {seconds:.4f} s on {len(tasks)} tasks: {steps}")
        case EpochDropped(epoch, reason, attempt, again):
            then = "the epoch runs again" if again else "the epoch is given up"
            return EventLine(f"epoch {epoch}, attempt {attempt} is dropped, {then}: {reason}", reason)
        case DiskFull(epoch, what, detail, attempt):
            reason = f"{what} ({detail})"
            return EventLine(f"epoch {epoch}, attempt {attempt} waits for a full disk: {reason}", reason)
        case WorkerDied(epoch, worker, reason, attempt):
            who = "a worker" if worker is None else f"worker {worker}"
            return EventLine(f"epoch {epoch}, attempt {attempt} has lost {who}: {reason}", reason)
    assert_never(event)


def _line_of_pressure(event: DiskPressure) -> EventLine:
    limit = f" of {size_text(event.limit)}" if event.limit else ""
    reason = f"the checkpoint takes {size_text(event.used)}{limit}, {size_text(event.free)} are free"
    what = "epochs take in fewer rows" if event.begins else "epochs take in all rows again"
    return EventLine(f"epoch {event.epoch}: {what}: {reason}", reason)


def _line_of_decision(event: DirectoryChanged | ChangeRefused | ChangeMeasured | Rebalanced) -> EventLine:
    where = f"epoch {event.epoch}, subquery {event.subquery}:"
    match event:
        case DirectoryChanged(what=what, why=why, gain=gain, cost=cost):
            return EventLine(f"{where} {what}, {why}; gain {gain:.1%}, {cost:,} bytes move", why)
        case ChangeRefused(what=what, why=why, rule=rule):
            return EventLine(f"{where} refused: {what}, {why}; {rule}", rule)
        case ChangeMeasured(predicted=predicted, measured=measured):
            return EventLine(f"{where} a gain of {predicted:.1%} was predicted, {measured:.1%} measured")
        case Rebalanced(changes=changes, refused=refused, apart=apart):
            return EventLine(f"{where} rebalanced, {changes} changes, {refused} refused; sites were {apart:.1%} apart")
    assert_never(event)


def _fields(event: Event, query: str, reason: str | None) -> dict[str, Any]:
    """Return the fields of a line: the query, and those of the event. Of the tasks of an epoch only their number."""
    values = {one.name: getattr(event, one.name) for one in fields(event)}
    if isinstance(event, EpochTimed):
        values["tasks"] = len(event.tasks)
    if isinstance(event, JoinExplodes):
        values[SHOWN] = True  # as a warning
    named = {"event": type(event).__name__, "query": query, **values}
    return named if reason is None else {**named, "reason": reason}
