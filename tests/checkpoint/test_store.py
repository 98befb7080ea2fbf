"""The checkpoint folder: who may open it, and what collection deletes."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from penstock.checkpoint.store import KEPT_MANIFESTS, Checkpoint
from penstock.errors import CheckpointError, CorruptCheckpointError
from penstock.progress.mark import BEGIN
from penstock.state.directory import uniform
from penstock.state.hash_ranges import EVERYTHING
from penstock.state.model import Manifest, RangeMark, SiteState, Staged, SubqueryState, Totals
from penstock.state.runs import RunFile, Slice
from penstock.storage.durable import epoch_of_name, staged_name


def _manifest(epoch: int, runs: list[str], staged: list[str]) -> Manifest:
    slices = tuple(Slice(RunFile(name, 0, 1, 1, "", 0, 0, 0), EVERYTHING) for name in runs)
    state = SubqueryState(uniform(1), (SiteState(slices, (RangeMark(EVERYTHING, (BEGIN,)),)),))
    files = tuple(Staged("results", name, 1, 1, "") for name in staged)
    return Manifest("query", "print", epoch, (), (state,), files, {}, Totals(), False)


@pytest.mark.parametrize("location", ["s3://bucket/ck", "hdfs://host/ck", "gs://bucket/ck", "memory://ck"])
def test_another_file_system_is_refused(location: str) -> None:
    scheme = location.partition("://")[0]
    with pytest.raises(CheckpointError, match=f"cannot be on {scheme}://"):
        Checkpoint.open(location)


def test_a_file_location_is_a_path(tmp_path: Path) -> None:
    checkpoint = Checkpoint.open(f"file://{tmp_path}/ck")
    checkpoint.close()
    assert checkpoint.root == tmp_path / "ck"


def test_what_is_made_is_private(tmp_path: Path) -> None:
    Checkpoint.open(tmp_path / "ck").close()
    for path in [tmp_path / "ck", *(p for p in (tmp_path / "ck").rglob("*"))]:
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path


@pytest.mark.parametrize("by_link", [False, True])
def test_a_folder_that_everyone_can_write_is_refused(by_link: bool, tmp_path: Path) -> None:
    (tmp_path / "ck").mkdir()
    (tmp_path / "ck").chmod(0o777)
    (tmp_path / "link").symlink_to(tmp_path / "ck")
    with pytest.raises(CheckpointError, match="can be written by everyone"):
        Checkpoint.open(tmp_path / ("link" if by_link else "ck"))
    assert not list((tmp_path / "ck").iterdir())


def test_a_second_driver_is_refused_and_the_first_unhurt(tmp_path: Path) -> None:
    first = Checkpoint.open(tmp_path)
    with pytest.raises(CheckpointError, match="in use by another run"):
        Checkpoint.open(tmp_path)
    first.commit(_manifest(0, [], []))
    assert first.newest() == _manifest(0, [], [])
    first.close()
    Checkpoint.open(tmp_path).close()


def test_a_new_checkpoint_has_no_manifest(tmp_path: Path) -> None:
    checkpoint = Checkpoint.open(tmp_path)
    assert checkpoint.newest() is None
    checkpoint.close()


def test_state_without_manifests_is_not_a_new_checkpoint(tmp_path: Path) -> None:
    checkpoint = Checkpoint.open(tmp_path)
    (checkpoint.runs / staged_name(3, "q0-s0", "x", "arrow")).touch()
    with pytest.raises(CorruptCheckpointError, match="manifests of this checkpoint are missing"):
        checkpoint.newest()
    checkpoint.close()


def test_leftovers_of_a_torn_commit_are_swept(tmp_path: Path) -> None:
    Checkpoint.open(tmp_path).close()
    (tmp_path / "manifests" / ".000000000004.json.0123").touch()
    checkpoint = Checkpoint.open(tmp_path)
    assert not list(checkpoint.manifests.iterdir())
    checkpoint.close()


def test_collection_deletes_what_no_kept_manifest_names(tmp_path: Path) -> None:
    checkpoint, staging = Checkpoint.open(tmp_path / "ck"), tmp_path / "staging"
    staging.mkdir()
    runs = [staged_name(epoch, "q0-s0", "t", "arrow") for epoch in range(8)]
    rows = [staged_name(epoch, "split-0", "t", "parquet") for epoch in range(8)]
    for name in runs:
        (checkpoint.runs / name).touch()
    for name in (*rows, "notes.txt", "published-000000000006"):
        (staging / name).touch()
    for epoch in range(7):  # epoch 7 is in the making
        checkpoint.commit(_manifest(epoch, [runs[epoch], runs[1]], [rows[epoch]]))
    checkpoint.collect([staging, tmp_path / "absent"])
    kept = range(7 - KEPT_MANIFESTS, 7)
    assert sorted(os.listdir(checkpoint.manifests)) == [f"{epoch:012d}.json" for epoch in kept]
    assert sorted(os.listdir(checkpoint.runs)) == sorted([runs[1], *(runs[e] for e in kept), runs[7]])
    assert sorted(os.listdir(staging)) == sorted(
        [*(rows[e] for e in kept), rows[7], "notes.txt", "published-000000000006"]
    )
    checkpoint.close()


def test_a_recovering_driver_deletes_what_an_uncommitted_epoch_has_left(tmp_path: Path) -> None:
    checkpoint = Checkpoint.open(tmp_path / "ck")
    runs = [staged_name(epoch, "q0-s0", "t", "arrow") for epoch in range(4)]
    for name in (*runs, "notes.txt"):
        (checkpoint.runs / name).touch()
    for epoch in range(2):  # epoch 2 and, read ahead, epoch 3 were in the making
        checkpoint.commit(_manifest(epoch, [runs[epoch]], []))
    checkpoint.collect([])
    assert sorted(os.listdir(checkpoint.runs)) == sorted([*runs, "notes.txt"])
    checkpoint.collect([], recovering=True)
    assert sorted(os.listdir(checkpoint.runs)) == sorted([*runs[:2], "notes.txt"])
    checkpoint.close()


def test_collection_believes_the_disk_and_nothing_else(tmp_path: Path) -> None:
    """A broken manifest among the kept ones: what it names is unknown, so nothing is deleted."""
    checkpoint = Checkpoint.open(tmp_path)
    run = checkpoint.runs / staged_name(0, "q0-s0", "t", "arrow")
    run.touch()
    for epoch in range(2):
        checkpoint.commit(_manifest(epoch, [run.name] if epoch == 0 else [], []))
    (checkpoint.manifests / "000000000000.json").write_bytes(b"{}")
    with pytest.raises(CorruptCheckpointError, match=r"000000000000\.json"):
        checkpoint.collect([])
    assert run.exists()
    checkpoint.close()


def test_names_carry_their_epoch() -> None:
    assert epoch_of_name(staged_name(12, "q0-s1", "token", "arrow")) == 12
    assert epoch_of_name("published-000000000006") is None
