"""Rows that were damaged between the commit and their publishing: named, and nothing of their epoch is seen."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import penstock as ps
from penstock.engine.driver import outputs
from penstock.engine.driver.outputs import Outputs
from penstock.engine.driver.published_record import rows_of
from penstock.errors import CorruptCheckpointError
from penstock.state.model import Manifest, Staged
from penstock.storage.faults import FaultPoint
from penstock.testing.ways import Way
from tests.support.crashes import (
    Fault,
    Place,
    Scenario,
    assert_exact,
    finish,
    launch,
    newest_manifest,
    run_until_death,
)

WAY = Way(sites=3)
SECOND = 1_000_000


def _times(*seconds: float | None) -> pa.Table:
    times = [None if s is None else int(s * SECOND) for s in seconds]
    return pa.table({"ts": pa.array(times, pa.timestamp("us")), "k": pa.array(range(len(times)), pa.int64())})


@pytest.fixture
def scenario() -> Scenario:
    """In its second epoch there are results, of several sites, late rows and bad ones."""
    batches = [_times(*range(20, 40)), _times(*range(5), None, *range(50, 70)), _times(90)]
    stream = ps.read.batches(batches, time="ts").group_by("k").window(ps.tumbling("10s")).agg(n=ps.count())
    return Scenario(stream)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def zero(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 4
    path.write_bytes(content)


def append(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"x")


def delete(path: Path) -> None:
    path.unlink()


def link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


DAMAGE = [truncate, empty, zero, flip, append, delete, link, pipe]


def _folder(place: Place, output: str) -> Path:
    return place.results if output == "results" else place.checkpoint / output


def _staged(place: Place, file: Staged) -> Path:
    return _folder(place, file.output) / "_penstock" / file.name


def _seen(place: Place) -> set[str]:
    return {p.name for output in ("results", "late", "bad") for p in _folder(place, output).glob("*.parquet")}


@pytest.mark.parametrize("output", ["results", "late", "bad"])
@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_a_staged_file_that_is_damaged_before_a_restart_is_named_and_its_epoch_is_not_seen(
    damage: Callable[[Path], None], output: str, scenario: Scenario, place: Place
) -> None:
    assert run_until_death(scenario, place, WAY, Fault(FaultPoint.COMMITTED, 2))
    manifest, seen = newest_manifest(place.checkpoint), _seen(place)
    assert {file.output for file in manifest.staged} == {"results", "late", "bad"}
    file = [file for file in manifest.staged if file.output == output][-1]
    kept = _staged(place, file).read_bytes()
    damage(_staged(place, file))
    for _ in range(2):
        with pytest.raises(CorruptCheckpointError) as caught:
            launch(scenario, place, WAY)
        assert caught.value.what == f"{file.rows} {rows_of(output)} of epoch 2 cannot be published"
        assert file.name in caught.value.detail
        assert "restore the file" in caught.value.hint
        assert _seen(place) == seen
    _staged(place, file).unlink(missing_ok=True)
    _staged(place, file).write_bytes(kept)
    finish(scenario, place, WAY)
    _staged(place, file).with_name("elsewhere").unlink(missing_ok=True)
    assert_exact(scenario, place)


@pytest.mark.parametrize("damage", [truncate, zero, flip, delete], ids=lambda damage: damage.__name__)
def test_a_staged_file_that_is_damaged_while_the_query_runs_ends_the_run(
    damage: Callable[[Path], None], scenario: Scenario, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = Outputs.publish

    def damaging(outputs: Outputs, manifest: Manifest) -> None:
        if manifest.epoch == 2:
            damage(_staged(place, manifest.staged[-1]))
        publish(outputs, manifest)

    monkeypatch.setattr(Outputs, "publish", damaging)
    with pytest.raises(CorruptCheckpointError, match="rows of epoch 2 cannot be published"):
        launch(scenario, place, WAY).wait()
    assert not any(name.startswith("e000000000002") for name in _seen(place))


def test_a_file_that_was_deleted_while_others_were_published_is_noticed(scenario: Scenario, place: Place) -> None:
    assert run_until_death(scenario, place, WAY, Fault(FaultPoint.PUBLISHED_ONE, 1))
    waiting = [file for file in newest_manifest(place.checkpoint).staged if _staged(place, file).exists()]
    assert waiting
    _staged(place, waiting[-1]).unlink()
    with pytest.raises(CorruptCheckpointError, match="cannot be published") as caught:
        launch(scenario, place, WAY)
    assert waiting[-1].name in caught.value.detail
    assert "was not published" in caught.value.detail


def test_rows_that_cannot_be_restored_can_be_given_up(scenario: Scenario, place: Place) -> None:
    assert run_until_death(scenario, place, WAY, Fault(FaultPoint.COMMITTED, 2))
    (late,) = [file for file in newest_manifest(place.checkpoint).staged if file.output == "late"]
    _staged(place, late).unlink()
    run = finish(scenario, place, WAY, on_missing_results="accept")
    assert run.late.num_rows == 0
    finish(scenario, place, WAY)  # what was given up is asked for no more


def test_rows_in_memory_are_read_from_whole_files_only(scenario: Scenario, tmp_path: Path) -> None:
    given: list[int] = []
    ready = scenario.stream.to.callback(lambda epoch, rows: given.append(epoch))
    crash = Place(tmp_path)
    memory = Scenario(scenario.stream)
    object.__setattr__(memory, "into", lambda place: ready)
    assert run_until_death(memory, crash, WAY, Fault(FaultPoint.COMMITTED, 2))
    file = next(f for f in newest_manifest(crash.checkpoint).staged if f.output == "results")
    flip(crash.checkpoint / "results" / file.name)
    with pytest.raises(CorruptCheckpointError, match="result rows of epoch 2 cannot be published"):
        launch(memory, crash, WAY)
    assert given == [1]


def test_a_file_is_checked_once_in_an_undisturbed_run(
    scenario: Scenario, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[str] = []
    check = outputs.what_is_wrong

    def counting(path: Path, file: Staged) -> str:
        checked.append(file.name)
        return check(path, file)

    monkeypatch.setattr(outputs, "what_is_wrong", counting)
    finish(scenario, place, WAY)
    assert sorted(checked) == sorted(_seen(place))
