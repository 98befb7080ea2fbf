"""The disk space of a query: bounded by its setting, with the exact answer as long as that is possible, and a clear
error when it is not."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

import penstock as ps
from penstock.api.streams import Stream
from penstock.checkpoint.store import Checkpoint
from penstock.engine.driver import disk, executor
from penstock.engine.driver.executor import InlineExecutor
from penstock.engine.driver.loop import EpochLoop, Outcome
from penstock.engine.driver.recovery import ignore, recover
from penstock.errors import DiskFullError
from penstock.events import DiskFull, DiskPressure, EpochCommitted, EpochDropped, Event
from penstock.plan.compile.subqueries import compile_query
from penstock.plan.options import CompileOptions
from penstock.settings import Settings
from penstock.testing import assert_same_rows, batch_answer

ROWS, SPAN = 3_000, 75_000
SLOW_SITES = Settings(sites=2, rows_per_epoch=2_000, items=2, item_rows=100)  # which leave rows pending
LARGE_EPOCHS = Settings(sites=2, rows_per_epoch=1_000)


class Place:
    """A folder with the rows of the sources `left` and `right`, in small row groups, with a checkpoint and results."""

    def __init__(self, folder: Path, random: Random) -> None:
        self.folder, self.rows = folder, {name: _rows(random, name) for name in ("left", "right")}
        for name, rows in self.rows.items():
            pq.write_table(rows, folder / f"{name}.parquet", row_group_size=25)

    def source(self, name: str) -> Stream:
        return ps.read.files(str(self.folder / f"{name}.parquet"), time="ts", progress=ps.slack(100), name=name)

    def joined(self) -> Stream:
        """A query whose state expires soon, and whose pending rows are as many as it takes in ahead of its work."""
        return self.source("left").join(self.source("right"), on=[("left", "right")], within=1_000)

    def counted(self) -> Stream:
        """A query whose state never expires."""
        return self.source("left").group_by("left_text").window(ps.tumbling(10 * SPAN)).agg(n=ps.count())

    def loop(self, query: Stream, settings: Settings, emit: Callable[[Event], None] = ignore) -> EpochLoop:
        compiled = compile_query(query.to.files(str(self.folder / "out")).sink, CompileOptions.of(settings))
        checkpoint = Checkpoint.open(self.folder / "ck")
        return EpochLoop(recover(compiled, checkpoint, settings, emit), InlineExecutor(), emit)

    def taken(self) -> int:
        """The bytes of the files of state, of manifests, and of rows that are not published yet."""
        staging = list(self.folder.rglob("_penstock"))
        folders = [self.folder / "ck" / "runs", self.folder / "ck" / "manifests", *staging]
        return sum(entry.stat().st_size for folder in folders for entry in os.scandir(folder))

    def largest(self, loop: EpochLoop) -> int:
        """Run a query to its end, and return the most that its files took between two epochs."""
        largest, outcome = 0, Outcome.WORKED
        while outcome is not Outcome.FINISHED:
            outcome = loop.step()
            assert loop.disk.used == self.taken()
            largest = max(largest, loop.disk.used)
        loop.checkpoint.close()
        return largest

    def assert_exact(self, query: Stream) -> None:
        assert_same_rows(pq.read_table(self.folder / "out"), batch_answer(query, self.rows))


def _rows(random: Random, name: str) -> pa.Table:
    times = sorted(random.randrange(SPAN) for _ in range(ROWS))
    texts = [random.randbytes(20).hex() for _ in times]
    return pa.table({"ts": times, name: [random.randrange(500) for _ in times], f"{name}_text": texts})


@pytest.fixture
def place(tmp_path: Path, random: Random) -> Place:
    return Place(tmp_path, random)


def test_less_is_taken_in_before_the_limit_is_reached(place: Place) -> None:
    query, told = place.joined(), list[Event]()
    limit = 200_000
    assert place.largest(place.loop(query, replace(SLOW_SITES, disk=limit), told.append)) <= limit
    place.assert_exact(query)
    assert next(event for event in told if isinstance(event, DiskPressure)).begins
    assert sum(isinstance(event, EpochDropped) for event in told) <= 5  # they are planned to fit


def test_without_a_limit_the_same_query_takes_more(place: Place) -> None:
    told = list[Event]()
    assert place.largest(place.loop(place.joined(), SLOW_SITES, told.append)) > 300_000
    assert not [event for event in told if isinstance(event, DiskPressure | EpochDropped)]


def test_state_that_never_expires_reaches_the_limit_and_a_larger_one_continues(place: Place) -> None:
    query, limit = place.counted(), 200_000
    loop = place.loop(query, replace(LARGE_EPOCHS, disk=limit))
    with pytest.raises(DiskFullError, match="of the 200 kB that the setting `disk` allows") as caught:
        place.largest(loop)
    assert caught.value.what.startswith("the checkpoint takes 1")
    assert str(place.folder / "ck") in caught.value.detail
    assert "a larger `disk` continues where it stopped" in caught.value.hint
    assert 0.93 * limit < place.taken() <= limit  # runs are not merged where there is no room for it
    assert loop.manifest.epoch > 5  # smaller and smaller ones
    loop.checkpoint.close()
    place.largest(place.loop(query, replace(LARGE_EPOCHS, disk=10 * limit)))
    place.assert_exact(query)


def test_an_input_that_cannot_be_taken_in_at_all_is_refused_at_once(place: Place) -> None:
    loop = place.loop(place.counted(), replace(LARGE_EPOCHS, disk=3_000))
    with pytest.raises(DiskFullError, match="that the setting `disk` allows"):
        loop.step()
    assert loop.manifest.epoch == 0
    assert place.taken() <= 3_000


def test_a_limit_below_what_there_is_lets_waiting_rows_be_worked_on(place: Place) -> None:
    query = place.joined()
    loop = place.loop(query, SLOW_SITES)
    while not loop.manifest.sources[0].ended:
        loop.step()
    before = place.taken()
    loop.checkpoint.close()
    place.largest(place.loop(query, replace(SLOW_SITES, disk=before // 2)))
    place.assert_exact(query)


def test_a_run_may_wait_for_a_disk_that_is_used_up(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "LOOK_EVERY", 0.01)
    told, settings = list[DiskFull](), replace(LARGE_EPOCHS, disk=120_000, on_full="wait")

    def hear(event: Event) -> None:
        if isinstance(event, DiskFull):
            told.append(event)
            if len(told) == 3:
                loop.room.stopping.set()

    loop = place.loop(place.counted(), settings, hear)
    with pytest.raises(DiskFullError):
        place.largest(loop)
    assert loop.room.given_up
    assert [event.attempt for event in told] == [1, 2, 3]
    assert "that the setting `disk` allows" in told[0].what


def test_a_file_system_that_is_nearly_full_slows_the_intake_until_there_is_room(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    query, told, taken_in = place.counted(), list[DiskPressure](), list[int]()

    def hear(event: Event) -> None:
        if isinstance(event, DiskPressure):
            told.append(event)
        elif isinstance(event, EpochCommitted):
            taken_in.append(event.rows_in)

    monkeypatch.setattr(disk, "_free", lambda folder: 10**12 if len(taken_in) >= 4 else 130_000 - place.taken())
    place.largest(place.loop(query, LARGE_EPOCHS, hear))
    assert taken_in[0] > taken_in[2] > taken_in[4]
    assert taken_in[5] == 1_000
    assert [(event.epoch, event.begins, event.limit) for event in told] == [(1, True, 0), (5, False, 0)]
    place.assert_exact(query)
