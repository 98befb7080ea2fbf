"""Convert failures of tasks on Spark to errors of Penstock."""

from __future__ import annotations

import re
from pathlib import Path

from py4j.protocol import Py4JError

from penstock.errors import AttemptFailed, LostWorker, PenstockError, QueryError
from penstock.storage.disk_errors import full

_NO_ROOM = re.compile(r"No space left on device|Disk quota exceeded")
_NO_WORKER = re.compile(r"Python worker exited unexpectedly|ExecutorLostFailure")


def cannot_travel(error: Exception) -> QueryError:
    """Return the error for a program that cannot be pickled."""
    return QueryError(
        "a Python function of the query cannot be sent to the workers",
        detail=f"{type(error).__name__}: {error}",
        hint="create locks, open files and connections inside the function, because they cannot be pickled; "
        "or run without Spark, with master inline",
    )


class TaskFailed(PenstockError):
    """A task of an epoch failed. Whether the epoch may run again depends on whether Spark has repeated the task."""

    lost_worker: bool = False  # whether the task failed because its worker died


def task_failed(epoch: int, reported: str, folder: Path | None = None) -> PenstockError:
    """Return the error for a failed task. `reported` is the message of Java, which may contain a Python traceback.

    Spark's own files, such as shuffle files, are written by Java, whose message says that a disk is full. They are in
    `folder`, which is known if all tasks run on one host.
    """
    if _NO_ROOM.search(reported):
        return full(
            folder, f"{_line_about_room(reported)}; SPARK_LOCAL_DIRS or spark.local.dir say where Spark's files are"
        )
    failed = TaskFailed(
        f"a task of epoch {epoch} failed repeatedly",
        detail=_python_part(reported)[:500],
        hint="the checkpoint is intact: fix the cause and restart the query",
    )
    failed.lost_worker = _NO_WORKER.search(reported) is not None
    return failed


def attempt_failed(error: PenstockError, worker: int | None = None) -> PenstockError:
    """Turn the error of a failed task into that of an attempt, which may be repeated. Other errors, as that of a full
    disk, are returned unchanged. `worker` is the worker of the pool that was lost."""
    if not isinstance(error, TaskFailed):
        return error
    if worker is None and not error.lost_worker:
        return AttemptFailed(error.what, detail=error.detail, hint=error.hint)
    lost = LostWorker(error.what, detail=error.detail, hint=error.hint)
    lost.worker = worker
    return lost


def spark_died(last_words: str) -> PenstockError:
    """Return the error for a JVM that ended while a query was running."""
    return PenstockError(
        "Spark died while the query was running",
        detail=last_words,
        hint="the checkpoint is intact: run the same query again, and it goes on from the last committed epoch; "
        "if this happens again, check whether the machine runs out of memory (`dmesg`, or the limits of the container)",
    )


def first_line(text: str) -> str:
    """Return the first line of a Java message, without the names of exceptions."""
    line = text.strip().partition("\n")[0]
    return re.sub(r"^(?:[\w.$]+(?:Exception|Error): )+", "", line)[:500]


def short_reason(error: Exception) -> str:
    """Return an error of Spark as one line. The message of a Java exception is in the JVM, which may be dead."""
    try:
        return first_line(str(getattr(error, "java_exception", error))) or type(error).__name__
    except (OSError, Py4JError):
        return type(error).__name__


def _line_about_room(reported: str) -> str:
    """Return the line of the message that reports a full disk."""
    return next(line.strip() for line in reported.splitlines() if _NO_ROOM.search(line))[:300]


def _python_part(message: str) -> str:
    """Return the line of the Python exception: the first line after a traceback that is not indented; without a
    traceback, the first line."""
    before, traceback, behind = message.rpartition("Traceback (most recent call last):\n")
    lines = behind.splitlines() if traceback else message.strip().splitlines()
    return next((line for line in lines if line and not line[0].isspace()), before.strip())
