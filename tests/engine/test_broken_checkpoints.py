"""A checkpoint that is broken, unsafe or another query's: a named error, never wrong rows."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

import penstock as ps
from penstock.checkpoint import manifest as manifests
from penstock.checkpoint.format import encode
from penstock.errors import CheckpointError, CorruptCheckpointError, SinkError, SourceError
from penstock.state.model import Manifest, RangeMark, SiteState
from penstock.state.runs import Slice
from penstock.storage.faults import FaultPoint, arm, disarm
from penstock.testing.ways import Way, random_way
from tests.support.crashes import (
    Fault,
    Place,
    Scenario,
    another_way,
    assert_exact,
    finish,
    launch,
    newest_manifest,
    random_scenario,
    run_until_death,
)
from tests.support.damage.tries import assert_answer

_OPTIONS: dict[str, Any] = {"master": "inline", "epoch": "1ms", "on_bad_row": "divert"}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "place")


@pytest.fixture
def way(random: Random) -> Way:
    """Nothing is left undone: otherwise runs stay that are needed no more, and are dropped unread later."""
    return replace(random_way(random), items=None, flush="eager")


@pytest.fixture
def half_done(random: Random, place: Place, way: Way) -> Scenario:
    """A scenario that was run for some epochs and then killed before an epoch was published."""
    scenario = random_scenario(random)
    assert run_until_death(scenario, place, way, Fault(FaultPoint.COMMITTED, 6))
    return scenario


def _flip(path: Path, random: Random) -> None:
    data = bytearray(path.read_bytes())
    data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    path.write_bytes(data)


def _refused(scenario: Scenario, place: Place, way: Way) -> str | None:
    """The file that a restart names as broken; None where it runs to its end."""
    try:
        finish(scenario, place, way)
    except CorruptCheckpointError as error:
        return Path(error.detail.partition(": ")[0]).name
    return None


@pytest.mark.parametrize("case", range(3))
def test_one_flipped_bit_in_any_file(
    case: int, half_done: Scenario, place: Place, way: Way, random: Random, tmp_path: Path
) -> None:
    shutil.copytree(place.root, tmp_path / "kept")
    newest = newest_manifest(place.checkpoint)
    must_be_seen = newest.run_names() | {f"{newest.epoch:012d}.json"}
    seen = set()
    for name in sorted(p.relative_to(place.checkpoint) for p in place.checkpoint.glob("[mr][au]n*/*")):
        shutil.rmtree(place.root)
        shutil.copytree(tmp_path / "kept", place.root)
        _flip(place.checkpoint / name, random)
        if _refused(half_done, place, another_way(random, way)) == name.name:
            seen.add(name.name)
        else:
            assert_exact(half_done, place, str(name))
    assert must_be_seen <= seen


def test_a_missing_run_is_named(half_done: Scenario, place: Place, way: Way) -> None:
    name = sorted(newest_manifest(place.checkpoint).run_names())[0]
    (place.checkpoint / "runs" / name).unlink()
    with pytest.raises(CorruptCheckpointError, match=name):
        launch(half_done, place, way).wait()


def test_a_checkpoint_of_another_query_is_refused_and_unhurt(
    half_done: Scenario, place: Place, way: Way, random: Random
) -> None:
    other = Scenario(half_done.stream.where(ps.lit(1) > 0))
    with pytest.raises(CheckpointError, match="belongs to another query") as caught:
        launch(other, place, way).wait()
    assert "\n  + " in caught.value.detail, "the line that this query has and the other has not"
    finish(half_done, place, another_way(random, way))
    assert_exact(half_done, place)


def test_another_width_of_the_hash_is_another_query(half_done: Scenario, place: Place, way: Way) -> None:
    with pytest.raises(CheckpointError, match="belongs to another query"):
        launch(half_done, place, Way(hash_bits=16)).wait()


def test_a_new_checkpoint_does_not_mix_into_the_results_of_an_old_one(
    half_done: Scenario, place: Place, way: Way, tmp_path: Path
) -> None:
    with pytest.raises(SinkError, match="already holds other results"):
        half_done.into(place).start(str(tmp_path / "other"), master="inline").wait()
    finish(half_done, place, way)
    assert_exact(half_done, place)


def test_a_claim_on_the_results_that_was_cut_short_does_not_lock_the_query_out(place: Place, random: Random) -> None:
    scenario = random_scenario(random)
    (place.results / "_penstock").mkdir(parents=True)
    (place.results / "_penstock" / ".published-000000000000.0123").touch()
    finish(scenario, place, Way())
    assert_exact(scenario, place)


def test_unsafe_places_are_refused(random: Random, tmp_path: Path) -> None:
    ready = random_scenario(random).stream.to.memory()
    with pytest.raises(CheckpointError, match="cannot be on s3://"):
        ready.start("s3://bucket/folder", master="inline").wait()
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(CheckpointError, match="can be written by everyone"):
        ready.start(str(tmp_path / "open"), master="inline").wait()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda m: replace(m, sources=m.sources * 2), "sources: it has 2, the query has 1"),
        (lambda m: replace(m, subqueries=m.subqueries * 3), "stateful operators"),
        (lambda m: replace(m, folders={**m.folders, "more": "x"}), "it has the outputs bad, late, more, results"),
        (lambda m: _with_sites(m, lambda s: replace(s, marks=_twice(s.marks))), "marks of a range of hashes"),
        (lambda m: _with_sites(m, lambda s: replace(s, slices=_of_port(s.slices, 7))), "belongs to input 7"),
        (lambda m: _with_sites(m, lambda s: replace(s, slices=(), held=s.slices)), "rows are held back"),
        (lambda m: _with_sites(m, lambda s: replace(s, slices=(), pending=s.slices)), "rows are pending at"),
        (lambda m: _with_progress(m, {"batches": 10**6}), "1000000 batches are read"),
        (lambda m: _with_progress(m, {"batches": -1}), "int` >= 0"),
        (lambda m: _with_progress(m, {"rows": "x"}), "batches"),
    ],
)
def test_a_manifest_that_does_not_fit_its_query_is_named(
    change: Callable[[Manifest], Manifest], why: str, half_done: Scenario, place: Place, way: Way
) -> None:
    newest = newest_manifest(place.checkpoint)
    path = place.checkpoint / "manifests" / manifests.file_name(newest.epoch)
    path.write_bytes(encode(change(newest)))
    with pytest.raises((CorruptCheckpointError, SourceError), match=why) as caught:
        launch(half_done, place, way).wait()
    assert caught.value.hint


def _with_sites(manifest: Manifest, change: Callable[[SiteState], SiteState]) -> Manifest:
    states = [replace(state, sites=tuple(map(change, state.sites))) for state in manifest.subqueries]
    return replace(manifest, subqueries=tuple(states))


def _twice(marks: Sequence[RangeMark]) -> tuple[RangeMark, ...]:
    return tuple(replace(part, marks=part.marks * 2) for part in marks)


def _of_port(slices: Sequence[Slice], port: int) -> tuple[Slice, ...]:
    return tuple(replace(piece, run=replace(piece.run, port=port)) for piece in slices)


def _with_progress(manifest: Manifest, progress: dict[str, Any]) -> Manifest:
    return replace(manifest, sources=(replace(manifest.sources[0], progress=progress),))


def test_the_loser_of_two_drivers_whose_lock_was_removed_ends_with_a_message(
    place: Place, random: Random, way: Way
) -> None:
    """The other one commits the same epochs, and cleans up what this one is about to commit."""
    scenario, others = random_scenario(random), list[ps.Run]()

    def somebody_else_takes_over() -> None:
        (place.checkpoint / "lock").unlink()
        disarm()
        others.append(scenario.into(place).start(str(place.checkpoint), **_OPTIONS, **way.settings()).wait())

    for point in (FaultPoint.PLANNED, FaultPoint.JOB_DONE, FaultPoint.MANIFEST_STAGED, FaultPoint.COMMITTED):
        shutil.rmtree(place.root, ignore_errors=True)
        arm(point, 3, somebody_else_takes_over)
        with pytest.raises(CheckpointError, match=r"another driver|has lost its checkpoint") as caught:
            launch(scenario, place, way).wait()
        assert caught.value.detail
        assert "let only one run use a checkpoint" in caught.value.hint
        assert others.pop().progress.state == "finished"
        assert_answer(scenario, place)
