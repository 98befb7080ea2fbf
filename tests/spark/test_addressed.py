"""Messages on their way through a job of Spark: large blobs as blobs in files, all others as they are."""

from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import pyarrow as pa
import pytest

from penstock.engine.wire.blob import Blob, Header
from penstock.engine.wire.job import TO_DRIVER, EpochJob, Message, TaskFailure, ToSite
from penstock.errors import DiskFullError, PenstockError
from penstock.spark.workers.transport import Addressed, BlobRef, addressed, opened

JOB = cast(EpochJob, SimpleNamespace(width=3))
LARGE, SMALL = pa.table({"n": range(20_000)}), pa.table({"n": [1, 2]})
REPORT = Message(TO_DRIVER, TaskFailure("split-0", PenstockError("no")))


def message(subquery: int, site: int, rows: pa.Table | None) -> Message:
    return Message(ToSite(subquery, site), Blob(Header("split-0", f"to {site}"), rows))


def sent(folder: Path | None) -> list[Addressed]:
    messages = [message(0, 0, LARGE), message(0, 4, SMALL), message(1, 5, LARGE), message(0, 1, None), REPORT]
    return list(addressed(JOB, None if folder is None else str(folder), messages))


@pytest.mark.parametrize(("with_folder", "blobs"), [(True, [True, False, True, False, False]), (False, [False] * 5)])
def test_only_large_blobs_are_parcels_and_only_on_one_host(
    with_folder: bool, blobs: list[bool], tmp_path: Path
) -> None:
    found = sent(tmp_path if with_folder else None)
    assert [partition for partition, _ in found] == [0, 1, 2, 1, 0]
    assert [isinstance(message, BlobRef) for _, message in found] == blobs


def test_a_full_disk_is_the_answer_of_whoever_packs_parcels(tmp_path: Path) -> None:
    """It says which folder is full, and the task is not tried again."""
    missing = tmp_path / "none"

    def full(*arguments: object) -> object:
        raise OSError(errno.ENOSPC, "No space left on device")

    with mock.patch.object(pa, "OSFile", full):
        ((_, answer),) = sent(missing)
    assert isinstance(answer, Message)
    assert isinstance(answer.content, TaskFailure)
    assert isinstance(answer.content.error, DiskFullError)
    assert str(tmp_path) in answer.content.error.what


def test_what_arrives_is_what_was_sent_and_parcels_for_later_levels_stay_closed(tmp_path: Path) -> None:
    passing: list[BlobRef] = []
    found: list[Any] = [m.content for m in opened(0, sent(tmp_path), passing)]
    assert [content.rows for content in found[:3]] == [LARGE, SMALL, None]
    assert [content.header.attempt for content in found[:3]] == ["to 0", "to 4", "to 1"]
    assert found[3] == REPORT.content
    assert [ref.to for ref in passing] == [ToSite(1, 5)]
    (later,) = opened(1, addressed(JOB, str(tmp_path), passing), [])
    assert isinstance(later.content, Blob)
    assert later.content.rows == LARGE
