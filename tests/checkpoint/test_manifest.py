"""Manifests: an epoch is committed once or not at all, and a broken manifest is named, never believed."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from manifest_case import RUN, STAGED, manifest_of, write_body

from penstock.checkpoint import manifest as manifests
from penstock.checkpoint.format import FORMAT, encode
from penstock.errors import CheckpointError, CorruptCheckpointError
from penstock.progress.mark import BEGIN, END, at
from penstock.state.directory import Group, uniform
from penstock.state.hash_ranges import EVERYTHING, HASH_END
from penstock.state.hot_keys import Cells
from penstock.state.model import Manifest, RangeMark, SiteState, SourceState, SubqueryState
from penstock.state.runs import Slice
from penstock.storage import durable


def _manifest(epoch: int = 7) -> Manifest:
    slices = (Slice(RUN, EVERYTHING),)
    marks = (RangeMark(EVERYTHING, (at(-(2**63)), END)),)
    site = SiteState(slices, marks, pending=slices, held=slices, released=at(3), turn=HASH_END - 1)
    sources = (SourceState({"batches": 3}, {"memory": at(12), "other": BEGIN}, False), SourceState(None, {}, True))
    return manifest_of(epoch, SubqueryState(uniform(1, 4), (site,)), sources=sources)


def test_what_is_committed_is_read_back(tmp_path: Path) -> None:
    ended = replace(_manifest(8), sources=(SourceState({}, {"memory": END}, True),), finished=True)
    for manifest in (_manifest(7), ended):
        manifests.commit(tmp_path, manifest)
        assert manifests.read(tmp_path, manifest.epoch) == manifest
    assert manifests.epochs(tmp_path) == [7, 8]


def test_groups_of_any_depth_are_read_back(tmp_path: Path) -> None:
    directory = uniform(3, 4).split(Group(5, 4)).split(Group(11, 5)).moved(Group(22, 6), 2).scaled(4)
    for epoch, known in enumerate((directory, uniform(1, 1))):
        sites = (SiteState((), ()),) * known.sites
        manifest = replace(_manifest(epoch), subqueries=(SubqueryState(known, sites),) * 2)
        manifests.commit(tmp_path, manifest)
        assert manifests.read(tmp_path, epoch) == manifest


@pytest.mark.parametrize("groups", [[1], [1, 1, 1], [0, 0], [], [65, 1, 1], [1, 1]])
def test_a_directory_that_does_not_cover_all_hashes_is_not_believed(groups: list[int], tmp_path: Path) -> None:
    body = msgspec.json.decode(encode(_manifest()))["body"]
    body["subqueries"][0]["directory"] |= {"groups": groups}  # with four homes
    write_body(tmp_path, 7, msgspec.json.encode(body))
    with pytest.raises(CorruptCheckpointError, match="to no site"):
        manifests.read(tmp_path, 7)


def test_spread_hashes_are_read_as_they_were_written(tmp_path: Path) -> None:
    directory = uniform(3).spread_over(Cells(0, 1, (2, 0))).spread_over(Cells(HASH_END - 1, 0, (0, 1, 2)))
    state = SubqueryState(directory.gathering([0]), (SiteState((), ()),) * 3)
    manifests.commit(tmp_path, replace(_manifest(), subqueries=(state,)))
    assert manifests.read(tmp_path, 7).subqueries == (state,)


@pytest.mark.parametrize(
    "spread",
    [
        [Cells(5, 0, (0, 2))],
        [Cells(5, 0, (0, -1))],
        [Cells(5, 0, (1, 1))],
        [Cells(5, 0, ())],
        [Cells(HASH_END, 0, (0, 1))],
        [Cells(-1, 0, (0, 1))],
        [Cells(5, 0, (0, 1)), Cells(5, 1, (0, 1))],
        [Cells(6, 0, (0, 1)), Cells(5, 0, (0, 1))],
    ],
)
def test_a_hash_that_is_spread_over_sites_that_there_are_not_is_not_believed(
    spread: list[Cells], tmp_path: Path
) -> None:
    directory = replace(uniform(2), spread=tuple(spread))
    state = SubqueryState(directory, (SiteState((), ()),) * 2)
    (tmp_path / manifests.file_name(7)).write_bytes(encode(replace(_manifest(), subqueries=(state,))))
    with pytest.raises(CorruptCheckpointError, match="spread"):
        manifests.read(tmp_path, 7)


def test_epochs_are_ordered_as_numbers_and_other_files_are_ignored(tmp_path: Path) -> None:
    for name in ("000000000010.json", "000000000009.json", "000000000009 (copy).json", "9.txt", ".000000000011.json.x"):
        (tmp_path / name).touch()
    assert manifests.epochs(tmp_path) == [9, 10]


def test_any_flipped_bit_is_seen(tmp_path: Path) -> None:
    manifests.commit(tmp_path, _manifest())
    path = tmp_path / manifests.file_name(7)
    data = path.read_bytes()
    for place in range(len(data)):
        for bit in (0x01, 0x20, 0x80):
            broken = bytearray(data)
            broken[place] ^= bit
            path.write_bytes(broken)
            with pytest.raises(CorruptCheckpointError, match=path.name):
                manifests.read(tmp_path, 7)


@pytest.mark.parametrize("length", [0, 1, 40, -1])
def test_a_cut_manifest_is_seen(length: int, tmp_path: Path) -> None:
    path = tmp_path / manifests.file_name(7)
    path.write_bytes(encode(_manifest())[:length])
    with pytest.raises(CorruptCheckpointError, match=path.name):
        manifests.read(tmp_path, 7)


def test_a_missing_manifest_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorruptCheckpointError, match=r"000000000003\.json"):
        manifests.read(tmp_path, 3)


def test_a_manifest_under_the_name_of_another_epoch_is_refused(tmp_path: Path) -> None:
    (tmp_path / manifests.file_name(9)).write_bytes(encode(_manifest(7)))
    with pytest.raises(CorruptCheckpointError, match=r"000000000009\.json"):
        manifests.read(tmp_path, 9)


@pytest.mark.parametrize("name", ["../lock", "/etc/passwd", "a/b", "..", ""])
def test_a_manifest_cannot_name_files_elsewhere(name: str, tmp_path: Path) -> None:
    """Whoever can write a checkpoint, checksum and all, gets an error out of it and nothing else."""
    site = SiteState((Slice(replace(RUN, name=name), EVERYTHING),), ())
    for broken in (
        replace(_manifest(), staged=(replace(STAGED, name=name),)),
        replace(_manifest(), subqueries=(SubqueryState(uniform(1), (site,)),)),
    ):
        (tmp_path / manifests.file_name(7)).write_bytes(encode(broken))
        with pytest.raises(CorruptCheckpointError):
            manifests.read(tmp_path, 7)


def test_another_format_is_told_apart_from_a_broken_file(tmp_path: Path) -> None:
    write_body(tmp_path, 1, msgspec.json.encode({"format": FORMAT + 1, "what": "ever"}))
    with pytest.raises(CheckpointError, match=f"format {FORMAT + 1}") as caught:
        manifests.read(tmp_path, 1)
    assert not isinstance(caught.value, CorruptCheckpointError)


def test_committing_again_what_is_committed_changes_nothing(tmp_path: Path) -> None:
    manifests.commit(tmp_path, _manifest())
    manifests.commit(tmp_path, _manifest())
    assert [p.name for p in tmp_path.iterdir()] == [manifests.file_name(7)]


def test_an_epoch_of_another_driver_is_left_alone(tmp_path: Path) -> None:
    manifests.commit(tmp_path, _manifest())
    before = (tmp_path / manifests.file_name(7)).read_bytes()
    with pytest.raises(CheckpointError, match="another driver has committed epoch 7"):
        manifests.commit(tmp_path, replace(_manifest(), query_id="other"))
    assert (tmp_path / manifests.file_name(7)).read_bytes() == before


def _link_and_lose_the_answer(monkeypatch: pytest.MonkeyPatch, error: OSError) -> None:
    link = os.link

    def linked(source: str, target: str) -> None:
        link(source, target)
        raise error

    monkeypatch.setattr(os, "link", linked)


@pytest.mark.parametrize("error", [OSError("no answer"), FileExistsError("sent twice, done once")])
def test_a_commit_whose_answer_is_lost_is_a_commit(
    error: OSError, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    _link_and_lose_the_answer(monkeypatch, error)
    monkeypatch.setattr(manifests, "sync_folder", synced.append, raising=False)
    manifests.commit(tmp_path, _manifest())
    assert manifests.read(tmp_path, 7) == _manifest()
    assert [p.name for p in tmp_path.iterdir()] == [manifests.file_name(7)]
    assert synced == [tmp_path], "a commit must be durable when it returns"


def test_a_failed_fsync_of_the_manifests_folder_is_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failed fsync the next one may claim success for pages that are lost."""
    fsync, failed = os.fsync, []

    def failing(descriptor: int) -> None:
        if os.readlink(f"/proc/self/fd/{descriptor}") == str(tmp_path) and not failed:
            failed.append(descriptor)
            raise OSError(errno.EIO, "Input/output error")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(OSError, match="could not be made durable: Input/output error"):
        manifests.commit(tmp_path, _manifest())


def test_a_commit_that_failed_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, data: bytes) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(durable, "write_new", full)
    with pytest.raises(OSError, match="no space left"):
        manifests.commit(tmp_path, _manifest())
    assert manifests.epochs(tmp_path) == []


def test_the_name_of_a_collected_epoch_cannot_be_used_again(tmp_path: Path) -> None:
    manifests.commit(tmp_path, _manifest(10))
    with pytest.raises(CheckpointError, match="another driver has committed epoch 10"):
        manifests.commit(tmp_path, _manifest(7))
    assert manifests.epochs(tmp_path) == [10]
