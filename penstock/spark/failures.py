"""What went wrong in a task on Spark, told as an error of ours."""

from __future__ import annotations

import re
from pathlib import Path

from penstock.errors import PenstockError, QueryError
from penstock.storage.disk_errors import full

TRIES = 4  # as often as Spark tries a task on a cluster
_NO_ROOM = re.compile(r"No space left on device|Disk quota exceeded")


def cannot_travel(error: Exception) -> QueryError:
    return QueryError(
        "a Python function of the query cannot travel to the workers",
        detail=f"{type(error).__name__}: {error}",
        hint="make what it needs inside of it (locks, open files and connections stay where they are), "
        "or run without Spark, with master inline",
    )


class TaskFailed(PenstockError):
    """A task of an epoch failed, as often as it was tried."""


def task_failed(epoch: int, told: str, folder: Path | None = None) -> PenstockError:
    """`told` may hold a Python traceback, inside of what Java has to say. Spark's own files, such as those of shuffles,
    are written by Java, which says in words that a disk is full; they are in `folder`, if all tasks are on one host."""
    if _NO_ROOM.search(told):
        return full(
            folder, f"{_line_about_room(told)}; SPARK_LOCAL_DIRS or spark.local.dir say where Spark's files are"
        )
    return TaskFailed(
        f"a task of epoch {epoch} failed again and again",
        detail=_python_part(told)[:500],
        hint="the checkpoint is intact: fix the cause and start the query again",
    )


def spark_died(last_words: str) -> PenstockError:
    """Describe a JVM that ended under a running query."""
    return PenstockError(
        "Spark has died under the query",
        detail=last_words,
        hint="the checkpoint is intact: run the same query again, and it goes on from the last committed epoch; "
        "if this happens again, look whether the machine runs out of memory (`dmesg`, or the limits of the container)",
    )


def first_line(text: str) -> str:
    """Return the first line of what Java has to say, without the name of its exception."""
    line = text.strip().partition("\n")[0]
    return re.sub(r"^(?:[\w.$]+(?:Exception|Error): )+", "", line)[:500]


def _line_about_room(told: str) -> str:
    return next(line.strip() for line in told.splitlines() if _NO_ROOM.search(line))[:300]


def _python_part(message: str) -> str:
    """The line of the Python exception: the first one behind a traceback that is not indented. Where there is none, the
    first line."""
    before, traceback, behind = message.rpartition("Traceback (most recent call last):\n")
    lines = behind.splitlines() if traceback else message.strip().splitlines()
    return next((line for line in lines if line and not line[0].isspace()), before.strip())
