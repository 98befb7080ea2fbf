"""Failures that systems like this one have had with state, rescaling and restored punctuation, as tests.

The letters and numbers are those of the list of known failures; `test_known_failures` has those of committing.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.checkpoint import manifest as manifests
from penstock.checkpoint import store
from penstock.engine.task.site import storing
from penstock.errors import CorruptCheckpointError
from penstock.events import Event
from penstock.storage.durable import Sync
from penstock.storage.faults import FaultPoint
from penstock.storage.run_files import Copy
from penstock.testing import assert_same_rows, batch_answer
from penstock.testing.ways import Way
from tests.support.crashes import (
    Fault,
    Place,
    Scenario,
    another_way,
    assert_exact,
    assert_homes,
    finish,
    kept_manifests,
    launch,
    newest_manifest,
    published,
    run_until_death,
)


def test_b3_no_name_is_used_twice_and_no_named_file_deleted(
    random: Random, scenario: Scenario, place: Place, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    write_run, delete = storing.write_run, store._delete

    def noting(folder: Path, name: str, rows: pa.Table, port: int, copy: Copy | None, sync: Sync) -> object:
        written.append(name)
        return write_run(folder, name, rows, port, copy, sync)

    def checking(path: Path) -> None:
        if path.suffix != ".json":
            named = {n for m in kept_manifests(place.checkpoint) for n in m.run_names() | {s.name for s in m.staged}}
            assert path.name not in named
        delete(path)

    monkeypatch.setattr(storing, "write_run", noting)
    monkeypatch.setattr(store, "_delete", checking)
    for _ in range(4):
        run_until_death(scenario, place, way, Fault(FaultPoint.SITE_DONE, random.randint(1, 9)))
        way = another_way(random, way)
    finish(scenario, place, way)
    assert len(written) == len(set(written))
    assert_exact(scenario, place)


def test_b8_state_without_its_manifests_is_refused(scenario: Scenario, place: Place, way: Way) -> None:
    launch(scenario, place, way, until="4 epochs").wait()
    for path in (place.checkpoint / "manifests").iterdir():
        path.unlink()
    assert list((place.checkpoint / "runs").iterdir())
    with pytest.raises(CorruptCheckpointError, match="manifests of this checkpoint are missing"):
        launch(scenario, place, way).wait()


def test_b8_results_of_a_lost_manifest_are_not_published_again(scenario: Scenario, place: Place, way: Way) -> None:
    while not newest_manifest(place.checkpoint).staged if place.checkpoint.exists() else True:
        launch(scenario, place, way, until="1 epochs").wait()
    last = newest_manifest(place.checkpoint).epoch
    (place.checkpoint / "manifests" / manifests.file_name(last)).unlink()
    with pytest.raises(CorruptCheckpointError, match="newest manifests of the checkpoint are missing") as caught:
        launch(scenario, place, way).wait()
    assert f"epoch {last} is published" in caught.value.detail


def test_b10_b11_rescaling_at_every_restart_and_dying_in_the_middle(scenario: Scenario, place: Place, way: Way) -> None:
    """A site that has lost groups writes nothing for them, and a move that was not committed is as if never begun."""

    def homes() -> None:
        for state in newest_manifest(place.checkpoint).subqueries:
            assert_homes(state, place.checkpoint / "runs")

    for number, sites in enumerate([1, 7, 2, 5, 1, 3]):
        way = replace(way, sites=sites)
        fault = Fault(FaultPoint.SITE_DONE if number % 2 else FaultPoint.COMMITTED, 1)
        assert run_until_death(scenario, place, way, fault, on_event=lambda event: homes()), sites
        homes()
    finish(scenario, place, replace(way, sites=4), on_event=lambda event: homes())
    assert_exact(scenario, place)


def test_b12_rows_that_were_taken_in_are_not_views_of_the_callers_buffer(place: Place) -> None:
    times, values = np.array([0, 1, 2]), np.array([1, 10, 100])
    batches = [pa.table({"t": times, "v": values}), pa.table({"t": [3, 50], "v": [1000, 0]})]
    before = pa.concat_tables([pa.table({"t": times.copy(), "v": values.copy()}), batches[1]])
    source = ps.read.batches(batches, time="t", one_batch_per_offer=True)
    query = source.group_by().window(ps.tumbling(10)).agg(total=ps.sum("v"))

    def reuse(event: Event) -> None:
        values[:] = -1

    run = query.to.memory().start(str(place.checkpoint), master="inline", epoch="1ms", on_event=reuse).wait()
    assert batches[0].column("v").to_pylist() == [-1, -1, -1]
    assert_same_rows(run.result(), batch_answer(query.node, {"batches": before}))


def test_c7_punctuation_that_advanced_before_a_stop_still_holds_after_it(place: Place) -> None:
    batches = [pa.table({"ts": [0, 100], "v": [1, 2]}), pa.table({"ts": [5, 100, 120], "v": [3, 4, 5]})]
    source = ps.read.batches(batches, time="ts", progress=ps.slack(10), one_batch_per_offer=True)
    query = source.group_by().window(ps.tumbling(10)).agg(n=ps.count(), total=ps.sum("v"))

    def start(**options: object) -> ps.Run:
        ready = query.to.files(str(place.results))
        return ready.start(str(place.checkpoint), master="inline", epoch="1ms", **options).wait()

    assert start(until="1 epochs").progress.low_water_mark == 90
    run = start()
    missed = {"subquery": 0, "first_start": 0, "last_end": 10}
    assert run.late.to_pylist() == [{"ts": 5, "v": 3, "late_for": [missed]}]
    rows = published(place.results, query.schema).to_pylist()
    assert sorted((r["window_start"], r["n"], r["total"]) for r in rows) == [(0, 1, 1), (100, 2, 6), (120, 1, 5)]


def test_c8_a_finished_checkpoint_stays_as_it_is(random: Random, scenario: Scenario, place: Place, way: Way) -> None:
    finish(scenario, place, way)
    files = sorted(p.name for p in place.results.glob("*.parquet"))
    run = finish(scenario, place, another_way(random, way))
    assert (run.progress.epochs, run.progress.rows_in) == (0, 0)
    assert sorted(p.name for p in place.results.glob("*.parquet")) == files
    assert_exact(scenario, place)
