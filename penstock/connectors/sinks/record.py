"""The record of an output: which query publishes there, and the newest epoch that it has published.

It is one small file in the staging folder. Its content, the id of the query, never changes, and its name has the epoch:
so going on to the next epoch is a rename, which is atomic and writes nothing. The name is made durable together with
the next staged files, by the commit of the epoch after; where a power cut comes first, the record is one epoch behind,
and the files themselves tell which of them are published.
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
    """Invariant: all rows of this query up to `epoch` have been published, here or where it published before."""

    query_id: str
    epoch: int


def read_record(staging: Path) -> Record | None:
    """The record of a staging folder; None where there is none."""
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
    """Write the first record of a folder, whole or not at all. False where somebody else was faster."""
    return create_exclusive(
        _path(staging, record.epoch), record.query_id.encode(), FaultPoint.CLAIM_STAGED, FaultPoint.CLAIM_LINKED
    )


def advance(staging: Path, before: int, epoch: int) -> None:
    """Note that an epoch is published."""
    if before != epoch:
        os.rename(_path(staging, before), _path(staging, epoch))
    reach(FaultPoint.RECORDED)


def sweep(staging: Path) -> None:
    """Remove claims that were cut short."""
    for leftover in staging.glob(".published-*"):
        leftover.unlink(missing_ok=True)


def _epochs(staging: Path) -> list[int]:
    names = os.listdir(staging) if staging.is_dir() else []
    return [int(match[1]) for name in names if (match := _NAME.fullmatch(name))]


def _path(staging: Path, epoch: int) -> Path:
    return staging / f"published-{epoch:012d}"


def _damaged(path: Path, detail: str) -> SinkError:
    return SinkError(
        f"the record {path.name} of what has been published cannot be used",
        detail=f"{path}: {detail}",
        hint="restore the file from a backup; its content is the `query_id` of the newest manifest",
    )
