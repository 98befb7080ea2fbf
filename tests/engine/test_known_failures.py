"""Failures that systems like this one have had in committing and recovering, each as a test that it cannot happen here.

The letters and numbers are those of the list of known failures. Files that are broken are `test_broken_checkpoints`.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.api.write import Ready
from penstock.checkpoint import manifest as manifests
from penstock.checkpoint.format import encode
from penstock.checkpoint.lock import Lock
from penstock.checkpoint.store import Checkpoint
from penstock.connectors.sinks.sink import RowWriter
from penstock.engine.driver.executor import InlineExecutor
from penstock.engine.driver.loop import EpochLoop
from penstock.engine.driver.recovery import recover
from penstock.engine.wire.job import EpochJob, LookAhead, Report, RouteTask, nothing_follows
from penstock.errors import CheckpointError, SourceError, StorageError
from penstock.events import EpochCommitted, Event
from penstock.plan.compile.subqueries import compile_query
from penstock.settings import Settings
from penstock.storage import durable
from penstock.storage.durable import epoch_of_name
from penstock.storage.faults import FaultPoint, InjectedCrash, arm, disarm
from penstock.testing import assert_same_rows
from penstock.testing.ways import Way
from tests.support.crashes import (
    USUAL_POINTS,
    Fault,
    Place,
    Scenario,
    another_way,
    assert_exact,
    finish,
    launch,
    newest_manifest,
    published,
    random_scenario,
    run_until_death,
)

WITHOUT_ROWS = [  # the points that an epoch of nothing but punctuation reaches
    p
    for p in USUAL_POINTS
    if p.name.split("_")[0] not in ("ROUTE", "RUN", "RECOVERED", "CLAIM") and p is not FaultPoint.COLLECTED_ONE
]


def _after_epoch(epoch: int, act: Callable[[], object]) -> Callable[[Event], None]:
    """A listener that acts once, between the given epoch and the next."""

    def hear(event: Event) -> None:
        if isinstance(event, EpochCommitted) and event.epoch == epoch:
            act()

    return hear


# -- A: commit ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nth", [1, 2, 6])
def test_a1_a_commit_whose_answer_is_lost_happened_once(nth: int, scenario: Scenario, place: Place, way: Way) -> None:
    assert not run_until_death(scenario, place, way, Fault(FaultPoint.MANIFEST_LINKED, nth, "error"))
    assert_exact(scenario, place)


def test_a1_a_publication_whose_answer_is_lost_happened_once(scenario: Scenario, place: Place, way: Way) -> None:
    assert run_until_death(scenario, place, way, Fault(FaultPoint.PUBLISHED_ONE, 2, "error"))
    finish(scenario, place, way)
    assert_exact(scenario, place)


def test_a1_a_commit_that_lands_after_another_one_is_refused(scenario: Scenario, place: Place, way: Way) -> None:
    folder = place.checkpoint / "manifests"
    other: list[bytes] = []

    def land() -> None:
        theirs = newest_manifest(place.checkpoint).next(query_id="the other one")
        manifests.commit(folder, theirs)
        other.append(encode(theirs))

    with pytest.raises(CheckpointError, match="another driver has committed epoch 3"):
        launch(scenario, place, way, on_event=_after_epoch(2, land)).wait()
    assert (folder / manifests.file_name(3)).read_bytes() == other[0]
    assert manifests.epochs(folder)[-1] == 3


class _Overtaken(InlineExecutor):
    """In its third epoch, loses the lock and is overtaken by another driver, which runs for `epochs` epochs."""

    def __init__(self, overtake: Callable[[], object]) -> None:
        super().__init__()
        self._overtake = overtake

    def run(self, job: EpochJob, routes: Sequence[RouteTask], following: LookAhead = nothing_follows) -> list[Report]:
        reports = super().run(job, routes, following)
        if job.epoch == 3:
            self._overtake()
        return reports


@pytest.mark.parametrize("noticed", [True, False], ids=["the lock is missed", "too late to miss the lock"])
@pytest.mark.parametrize("lead", ["1 epochs", "2 epochs", "4 epochs", None])
def test_a1_a_driver_that_was_overtaken_commits_and_publishes_nothing(
    lead: str | None, noticed: bool, random: Random, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the manifest of its epoch has been collected by now, and its name is free again."""
    scenario = random_scenario(random)
    while not scenario.batches[2].num_rows:  # without rows, two drivers would write the very same manifest
        scenario = random_scenario(random)
    checkpoint = Checkpoint.open(place.checkpoint)

    def overtake() -> None:
        checkpoint.close()
        launch(scenario, place, Way(), until=lead).wait()

    settings = Settings(master="inline", on_bad_row="divert", rows_per_epoch=1)
    loop = EpochLoop(recover(compile_query(scenario.into(place).sink), checkpoint, settings), _Overtaken(overtake))
    loop.step()
    loop.step()
    if not noticed:
        monkeypatch.setattr(Lock, "held", True)
    with pytest.raises(CheckpointError, match="lost its checkpoint" if noticed else "another driver"):
        loop.step()
    finish(scenario, place, Way())
    assert_exact(scenario, place)


def test_a3_a_second_driver_is_refused_and_the_first_is_unhurt(scenario: Scenario, place: Place, way: Way) -> None:
    refused: list[CheckpointError] = []

    def second() -> None:
        with pytest.raises(CheckpointError, match="in use by another run") as caught:
            launch(scenario, place, way).wait()
        refused.append(caught.value)

    launch(scenario, place, way, on_event=_after_epoch(2, second)).wait()
    assert f"process {os.getpid()}" in refused[0].detail
    assert refused[0].hint
    assert_exact(scenario, place)


@pytest.mark.parametrize("point", WITHOUT_ROWS, ids=lambda point: point.value)
def test_a4_death_in_an_epoch_of_nothing_but_punctuation(
    point: FaultPoint, random: Random, scenario: Scenario, place: Place, way: Way
) -> None:
    empty = scenario.batches[0].slice(0, 0)
    batches = (pa.concat_tables(scenario.batches), empty, empty)
    source = ps.read.batches(batches, time="ts", progress=ps.slack(0), one_batch_per_offer=True)
    stream = source.group_by("k").window(ps.tumbling("10s")).agg(n=ps.count())
    plain = Scenario(stream)
    way = replace(way, items=1, item_rows=20)  # so that work is left for the epochs without rows
    with pytest.raises(InjectedCrash):
        launch(plain, place, way, on_event=_after_epoch(1, lambda: arm(point))).wait()
    disarm()
    finish(plain, place, another_way(random, way))
    assert_exact(plain, place)


def test_a5_after_a_failed_commit_there_is_no_later_one(
    scenario: Scenario, place: Place, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_new = durable.write_new

    def failing(path: Path, data: bytes) -> None:
        if manifests.file_name(3) in path.name:
            raise OSError("no space left")
        write_new(path, data)

    monkeypatch.setattr(durable, "write_new", failing)
    with pytest.raises(StorageError, match="no space left"):
        launch(scenario, place, way).wait()
    assert manifests.epochs(place.checkpoint / "manifests") == [0, 1, 2]
    monkeypatch.undo()
    finish(scenario, place, way)
    assert_exact(scenario, place)


@pytest.mark.parametrize(
    "point", [p for p in USUAL_POINTS if p is not FaultPoint.MANIFEST_LINKED], ids=lambda p: p.value
)
def test_a5_an_error_of_the_disk_ends_the_run_and_hurts_nothing(
    point: FaultPoint, random: Random, scenario: Scenario, place: Place, way: Way
) -> None:
    assert run_until_death(scenario, place, way, Fault(point, 1, "error"))
    finish(scenario, place, another_way(random, way))
    assert_exact(scenario, place)


def _write_files(folder: Path, parts: dict[str, pa.Table]) -> None:
    folder.mkdir(exist_ok=True)
    for name, rows in parts.items():
        pq.write_table(rows, folder / name)


def _part(first: int) -> pa.Table:
    return pa.table({"t": np.arange(first, first + 10), "v": np.arange(first, first + 10) * 3})


def _start_on_files(place: Place, follow: bool, **options: object) -> ps.Run:
    source = ps.read.files(str(place.root / "in"), time="t", progress=ps.slack(10**6), follow=follow)
    ready: Ready = source.select("t", "v").to.files(str(place.results))
    return ready.start(str(place.checkpoint), master="inline", epoch="1ms", rows_per_epoch=10, **options)


@pytest.mark.parametrize("follow", [False, True])
def test_a7_files_that_change_between_death_and_retry(follow: bool, place: Place) -> None:
    """An epoch that was not committed did not happen: its files may be others when it is planned again."""
    folder = place.root / "in"
    _write_files(folder, {"1.parquet": _part(0), "3.parquet": _part(20)})
    arm(FaultPoint.JOB_DONE, 2 if follow else 1)
    with pytest.raises(InjectedCrash):
        _start_on_files(place, follow).wait()
    disarm()
    (folder / "3.parquet").unlink()
    changed = {"0.parquet": _part(50), "2.parquet": _part(30), "4.parquet": _part(40)}
    _write_files(folder, changed if follow else {**changed, "1.parquet": _part(70)})
    run = _start_on_files(place, follow, until="30 rows" if follow else "40 rows").wait()
    want = [_part(0) if follow else _part(70), *changed.values()]
    assert run.progress.rows_in == (30 if follow else 40)
    assert_same_rows(published(place.results, want[0].schema), pa.concat_tables(want))


def test_a7_a_file_that_vanished_is_named_and_can_be_put_back(place: Place) -> None:
    folder = place.root / "in"
    parts = {f"{n}.parquet": _part(n * 10) for n in range(3)}
    _write_files(folder, parts)
    _start_on_files(place, False, until="1 epochs").wait()
    shutil.move(folder / "2.parquet", place.root / "2.parquet")
    with pytest.raises(SourceError, match="no longer exist"):
        _start_on_files(place, False).wait()
    shutil.move(place.root / "2.parquet", folder / "2.parquet")
    assert _start_on_files(place, False).wait().progress.state == "finished"
    assert_same_rows(published(place.results, _part(0).schema), pa.concat_tables(parts.values()))


def test_a8_c8_a_restart_before_every_epoch(random: Random, scenario: Scenario, place: Place, way: Way) -> None:
    """Among the epochs is one without rows; the first punctuation after a restart emits no window again."""
    restarts = 0
    while launch(scenario, place, way, until="1 epochs").wait().progress.state != "finished":
        way, restarts = another_way(random, way), restarts + 1
    assert restarts >= len(scenario.batches) - 1
    assert_exact(scenario, place)


def test_a10_stopping_loses_no_tail(random: Random, scenario: Scenario, place: Place, way: Way) -> None:
    stops: list[str] = []
    for now in (False, True, False):
        run = launch(scenario, place, way)
        stops.append(run.stop(now).progress.state)
    assert set(stops) <= {"stopped", "finished"}
    finish(scenario, place, another_way(random, way))
    assert_exact(scenario, place)


def test_a10_a_file_of_results_that_is_half_written_is_never_published(
    scenario: Scenario, place: Place, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(writer: RowWriter, output: str) -> None:
        if writer.rows:
            raise InjectedCrash("in the middle of a file")

    monkeypatch.setattr(RowWriter, "finish", die)
    with pytest.raises(InjectedCrash):
        launch(scenario, place, way).wait()
    monkeypatch.undo()
    torn = [p for p in place.root.rglob("*.parquet") if p.parent.name == "_penstock"]
    assert torn, "nothing was half written"
    finish(scenario, place, way)
    assert_exact(scenario, place)


def test_a11_what_a_manifest_names_is_durable_before_it(
    scenario: Scenario, place: Place, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Content is synced, then the folder that holds the name, then the manifest becomes visible. So is the record of
    what the epoch before has published."""
    order: list[str] = []
    link, rename, checked = os.link, os.rename, Counter[str]()

    def noting(source: Path, target: Path, **folders: int) -> None:
        rename(source, target, **folders)
        order.append(str(target))

    def watching(source: Path, target: Path) -> None:
        if Path(target).suffix != ".json":
            return link(source, target)
        manifest = manifests.decode(Path(target), Path(source).read_bytes())
        fresh = [n for n in manifest.run_names() if epoch_of_name(n) == manifest.epoch]
        for name in (*fresh, *(file.name for file in manifest.staged)):
            file = next(n for n, path in enumerate(order) if path.endswith("/" + name))
            assert os.path.dirname(order[file]) in order[file:], f"the name {name} could be lost"
            checked[name.rpartition(".")[2]] += 1
        records = [n for n, path in enumerate(order) if "/published-" in path]
        for record in records:
            assert os.path.dirname(order[record]) in order[record:], "what is published could be forgotten"
        checked["record"] += len(records)
        link(source, target)

    monkeypatch.setattr(os, "fsync", lambda descriptor: order.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    monkeypatch.setattr(os, "link", watching)
    monkeypatch.setattr(os, "rename", noting)
    finish(scenario, place, way)
    assert checked["record"]
    assert checked["arrow"]
    assert checked["parquet"]


def test_a12_an_epoch_that_is_run_again_gives_the_same_rows(random: Random, scenario: Scenario, tmp_path: Path) -> None:
    way = Way(sites=3, items=2, item_rows=5)
    calm, hurt = Place(tmp_path / "calm"), Place(tmp_path / "hurt")
    finish(scenario, calm, way)
    for point in random.sample([FaultPoint.JOB_DONE, FaultPoint.SITE_DONE, FaultPoint.MANIFEST_STAGED], 3):
        run_until_death(scenario, hurt, way, Fault(point, random.randint(2, 5)))
    finish(scenario, hurt, way)
    assert newest_manifest(calm.checkpoint).epoch == newest_manifest(hurt.checkpoint).epoch
    assert _rows_by_epoch(calm) == _rows_by_epoch(hurt)


def _rows_by_epoch(place: Place) -> dict[int | None, list[str]]:
    rows: dict[int | None, list[str]] = {}
    for file in place.results.glob("*.parquet"):
        rows.setdefault(epoch_of_name(file.name), []).extend(map(repr, pq.read_table(file).to_pylist()))
    return {epoch: sorted(part) for epoch, part in rows.items()}
