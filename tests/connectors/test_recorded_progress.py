"""The progress of a files source as manifests have it: part of the written format, recorded here, and read for ever."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.connectors.files.listing import FileId
from penstock.connectors.files.reader import begin, from_json

A, B, C = (
    FileId(f"/data/{name}.csv", size, 1_700_000_000_000_000_000 + size)
    for name, size in [("a", 10), ("b", 20), ("c", 30)]
)
PARTLY = [{"path": "/data/b.csv", "size": 20, "mtime_ns": 1_700_000_000_000_000_020, "at": 7}]
RECORDED: dict[bool, dict[str, Any]] = {
    True: {"finished": "cKz7+OJo9Oiy", "partly": PARTLY},
    False: {"remaining": "kMkHOqjfaxaM/mO4g4WO/pB3", "partly": PARTLY},
}


@pytest.mark.parametrize("follow", RECORDED)
def test_the_progress_of_files_is_written_as_it_was_recorded(follow: bool) -> None:
    assert begin(follow, (A, B, C)).after([A], {B: 7}).to_json() == RECORDED[follow]


@pytest.mark.parametrize("follow", RECORDED)
def test_recorded_progress_of_files_says_what_is_left_to_read(follow: bool) -> None:
    progress = from_json(RECORDED[follow], follow)
    assert progress.queue((A, B, C)) == (B, C)
    assert progress.partly == {B: 7}
