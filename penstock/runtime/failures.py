"""What went wrong in a task on Spark, told as an error of ours."""

from __future__ import annotations

import re

from penstock.checkpoint.disk_errors import full
from penstock.errors import PenstockError, QueryError

_NO_ROOM = re.compile(r"No space left on device|Disk quota exceeded")


def cannot_travel(error: Exception) -> QueryError:
    return QueryError(
        "a Python function of the query cannot travel to the workers",
        detail=f"{type(error).__name__}: {error}",
        hint="make what it needs inside of it (locks, open files and connections stay where they are), "
        "or run without Spark, with master inline",
    )


def task_failed(epoch: int, told: str) -> PenstockError:
    """`told` may hold a Python traceback, inside of what Java has to say. Spark's own files, such as those of shuffles,
    are written by Java, which says in words that a disk is full."""
    if _NO_ROOM.search(told):
        return full("a folder that Spark writes to", f"{_line_about_room(told)}; spark.local.dir says where they are")
    return PenstockError(
        f"a task of epoch {epoch} failed again and again",
        detail=_python_part(told)[:500],
        hint="the checkpoint is unhurt: mend the cause and start the query again",
    )


def _line_about_room(told: str) -> str:
    return next(line.strip() for line in told.splitlines() if _NO_ROOM.search(line))[:300]


def _python_part(message: str) -> str:
    """The line of the Python exception: the first one behind a traceback that is not indented. Where there is none, the
    first line."""
    before, traceback, behind = message.rpartition("Traceback (most recent call last):\n")
    lines = behind.splitlines() if traceback else message.strip().splitlines()
    return next((line for line in lines if line and not line[0].isspace()), before.strip())
