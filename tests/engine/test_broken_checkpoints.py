"""A checkpoint that is broken, unsafe or another query's: a named error, never wrong rows."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

import penstock as ps
from penstock.checkpoint.faults import FaultPoint
from penstock.errors import CheckpointError, CorruptCheckpointError, SinkError
from penstock.testing.crashes import (
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
from penstock.testing.ways import Way, random_way


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
