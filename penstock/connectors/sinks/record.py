"""The record of an output: the query that publishes there, and the newest epoch that it has published.

The record is one small file in the staging folder. Its content, the id of the query, never changes; its name contains
the epoch. So advancing to the next epoch is a rename, which is atomic and writes no data. The rename becomes durable
with the next staged files, in the commit of the following epoch. After a power failure before that, the record is one
epoch behind, and the published files themselves show which of them are published.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import SinkError
from penstock.storage.durable import create_exclusive
from penstock.storage.faults import FaultPoint, reach
from penstock.storage.plain_file import read_plain, reason

_NAME = re.compile(r"published-(\d{12})")
_ID = re.compile(r"[0-9A-Za-z-]{1,64}")


@dataclass(frozen=True)
class Record:
    """The query and epoch of a record. Invariant: all rows of the query up to `epoch` are published, here or in an
    earlier place."""

    query_id: str
    epoch: int


def read_record(staging: Path) -> Record | None:
    """Return the record of a staging folder; None if there is none."""
    epochs = _epochs(staging)
    if not epochs:
        return None
    path = _path(staging, max(epochs))
    try:
        text = read_plain(path, 64).decode("ascii", errors="replace")
    except OSError as error:
        raise _damaged(path, reason(error)) from error
    if not _ID.fullmatch(text):
        raise _damaged(path, "it should hold the id of a query, and nothing else")
    return Record(text, max(epochs))


def claim(staging: Path, record: Record) -> bool:
    """Write the first record of a folder, atomically; return False if another process wrote one first."""
    return create_exclusive(
        _path(staging, record.epoch), record.query_id.encode(), FaultPoint.CLAIM_STAGED, FaultPoint.CLAIM_LINKED
    )


def advance(staging: Path, before: int, epoch: int) -> None:
    """Record that an epoch is published."""
    if before != epoch:
        os.rename(_path(staging, before), _path(staging, epoch))
    reach(FaultPoint.RECORDED)


def sweep(staging: Path) -> None:
    """Remove the leftovers of interrupted claims."""
    for leftover in staging.glob(".published-*"):
        leftover.unlink(missing_ok=True)


def _epochs(staging: Path) -> list[int]:
    names = os.listdir(staging) if staging.is_dir() else []
    return [int(match[1]) for name in names if (match := _NAME.fullmatch(name))]


def _path(staging: Path, epoch: int) -> Path:
    return staging / f"published-{epoch:012d}"


def _damaged(path: Path, detail: str) -> SinkError:
    return SinkError(
        f"the record {path.name} of published epochs cannot be used",
        detail=f"{path}: {detail}",
        hint="restore the file from a backup; its content is the `query_id` of the newest manifest",
    )
