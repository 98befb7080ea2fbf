"""Folders that would get into each other's way are refused before anything runs, however they are written."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.connectors.files.listing import list_files, would_match
from penstock.errors import ConfigError, SinkError


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "input").mkdir()
    pq.write_table(pa.table({"ts": [1, 2, 3]}), tmp_path / "input" / "a.parquet")
    (tmp_path / "link").symlink_to(tmp_path)


def start(results: str, checkpoint: str = "ck", source: str = "input", **options: object) -> ps.Run:
    ready = ps.read.files(source, time="ts", follow=bool(options.pop("follow", False))).to.files(results)
    return ready.start(checkpoint, master="inline", **options).wait()


def _everything() -> list[str]:
    return sorted(os.path.join(folder, name) for folder, _, names in os.walk(".") for name in names)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"results": "ck/runs"}, "the result rows would lie inside the folder of the checkpoint"),
        ({"results": "ck"}, "the result rows would lie in the same folder as the checkpoint"),
        ({"results": "link/ck/manifests"}, "the result rows would lie inside the folder of the checkpoint"),
        ({"results": "ck/late"}, "the result rows would lie inside the folder of the checkpoint"),
        ({"results": "out", "checkpoint": "out/ck"}, "the checkpoint would lie inside the folder of the result rows"),
        ({"results": "out", "checkpoint": "out/_penstock/ck"}, "the checkpoint would lie inside the folder of"),
        ({"results": "out", "late": "out"}, "the late rows would lie in the same folder as the result rows"),
        ({"results": "out", "late": "./x/../out/"}, "the late rows would lie in the same folder as the result rows"),
        ({"results": "out", "late": "link/out"}, "the late rows would lie in the same folder as the result rows"),
        ({"results": "out", "late": "out/late"}, "the late rows would lie inside the folder of the result rows"),
        ({"results": "out", "late": "out/_penstock"}, "the late rows would lie inside the folder of the result rows"),
        ({"results": "out/rows", "late": "out"}, "the result rows would lie inside the folder of the late rows"),
        ({"results": "out", "bad": "out"}, "the bad rows would lie in the same folder as the result rows"),
        ({"results": "out", "late": "x", "bad": "x"}, "the late rows would lie in the same folder as the bad rows"),
        ({"results": "out", "late": "ck/runs"}, "the late rows would lie inside the folder of the checkpoint"),
        ({"results": "input"}, "source `files` would read the output of its own query"),
        ({"results": "input", "follow": True}, "source `files` would read the output of its own query"),
        ({"results": "link/input/results", "follow": True}, "source `files` would read the output of its own query"),
        ({"results": "input/results", "source": "link/input/*", "follow": True}, "source `files` would read"),
        ({"results": "input", "source": "input/*.parquet"}, "source `files` would read the output of its own query"),
        ({"results": "out", "late": "input/late"}, "source `files` would read the output of its own query"),
        ({"results": "out", "checkpoint": "input/ck"}, "source `files` would read the output of its own query"),
    ],
    ids=str,
)
def test_folders_that_overlap_are_refused_before_anything_runs(options: dict[str, object], message: str) -> None:
    before = _everything()
    with pytest.raises(ConfigError, match=message) as caught:
        start(**options)  # type: ignore[arg-type]
    assert caught.value.detail
    assert caught.value.hint
    assert _everything() == before


def test_a_cache_is_nobody_elses_folder(tmp_path: Path) -> None:
    for cache in ("ck/runs", "out", "ck"):
        with pytest.raises(ConfigError, match="the cache"):
            start("out", cache=str(tmp_path / cache))
    start("out", cache=str(tmp_path / "cache"))


@pytest.mark.parametrize(
    "options",
    [
        {"results": "out", "late": "ck/late", "bad": "link/ck/bad"},
        {"results": "out", "late": "out/_late", "checkpoint": "out/.ck"},
        {"results": "input-results", "late": "out", "source": "input/*.parquet"},
        {"results": "input/_results"},
        {"results": ".", "source": "input", "checkpoint": ".penstock/q", "late": "_late"},
    ],
    ids=str,
)
def test_folders_that_do_not_overlap_are_fine(options: dict[str, str]) -> None:
    start(**options)  # type: ignore[arg-type]
    assert sum(pq.read_metadata(f).num_rows for f in Path(options["results"]).glob("e*.parquet")) == 3


@pytest.mark.parametrize("folder", ["out", "./x/../out", "link/out", "out/"])
def test_a_second_query_of_the_process_is_refused_the_folder_of_the_first(folder: str, tmp_path: Path) -> None:
    start("out")
    before = _everything()
    for spelled in (folder, str(tmp_path / folder)):
        with pytest.raises(SinkError, match="already holds other results"):
            start(spelled, checkpoint="other")
    assert [name for name in _everything() if "/other/" not in name] == before


@pytest.mark.parametrize(
    "pattern",
    ["data", "data/*", "data/*.parquet", "data/**", "data/**/*.parquet", "*", "**/x.parquet", "data/sub", "d*/s?b/*",
     "data/sub/x.parquet", "data/_sub", "data/_sub/*", "data/[a-s]*", "nothing", "data/*.csv", "_*", "."],
)  # fmt: skip
def test_what_would_be_listed_is_what_is_listed(pattern: str, tmp_path: Path) -> None:
    paths = [f"data/{name}" for name in ("x.parquet", "x.csv", "sub/x.parquet", "_sub/x.parquet", "sub/.y", "z.tmp")]
    for path in paths:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    (tmp_path / "link").unlink()
    listed = {file.path for file in list_files((pattern,))} if pattern != "nothing" else set()
    expected = {path for path in paths if str(tmp_path / path) in listed}
    assert {path for path in paths if would_match(pattern, os.path.realpath(path))} == expected
