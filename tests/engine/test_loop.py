"""When an epoch is worth running, and when there is nothing to do."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.checkpoint.store import Checkpoint
from penstock.engine.driver.executor import InlineExecutor
from penstock.engine.driver.loop import EpochLoop, Outcome
from penstock.engine.driver.recovery import recover
from penstock.events import Event
from penstock.plan.compile.subqueries import compile_query
from penstock.settings import Settings

SECOND = 1_000_000


def followed(folder: Path, levels: int) -> EpochLoop:
    folder.mkdir(exist_ok=True)
    stream = ps.read.files(str(folder / "*.parquet"), time="ts", follow=True, schema={"ts": "TIMESTAMP"})
    for _ in range(levels):
        stream = stream.window(ps.sliding("10s", every="3s")).agg(n=ps.count())
    ready = stream.to.files(str(folder / "out"))
    return EpochLoop(recover(compile_query(ready.sink), Checkpoint.open(folder / "ck"), Settings()), InlineExecutor())


def add(folder: Path, name: str, *seconds: int) -> None:
    rows = pa.table({"ts": pa.array([s * SECOND for s in seconds], pa.timestamp("us"))})
    pq.write_table(rows, folder / f"{name}.parquet")


@pytest.mark.parametrize("levels", [0, 1, 2, 3])
def test_a_followed_folder_without_news_is_idle_at_any_depth(levels: int, tmp_path: Path) -> None:
    loop = followed(tmp_path, levels)
    assert loop.step() is Outcome.WORKED  # the first epoch notes where the source begins
    assert loop.step() is Outcome.IDLE
    for number, seconds in enumerate([(1, 50), (200, 201)]):
        add(tmp_path, f"f{number}", *seconds)
        assert loop.step() is Outcome.WORKED
        assert loop.step() is Outcome.IDLE
    assert loop.manifest.epoch == 3


def test_work_that_a_deadline_left_is_worth_an_epoch_without_news(tmp_path: Path) -> None:
    rows = pa.table({"ts": pa.array([1 * SECOND] * 50 + [99 * SECOND], pa.timestamp("us")), "k": range(51)})
    stream = ps.read.table(rows, time="ts").group_by("k").window(ps.tumbling("10s")).agg(n=ps.count())
    settings = Settings(items=1, item_rows=1)
    loop = EpochLoop(
        recover(compile_query(stream.to.files(str(tmp_path / "out")).sink), Checkpoint.open(tmp_path / "ck"), settings),
        InlineExecutor(),
    )
    outcomes = [loop.step()]
    while outcomes[-1] is not Outcome.FINISHED:
        outcomes.append(loop.step())
    assert set(outcomes[:-1]) == {Outcome.WORKED}
    assert len(outcomes) > 10
    assert pq.read_table(tmp_path / "out").num_rows == 51


def test_a_loop_touches_no_file_before_its_first_step(tmp_path: Path) -> None:
    add(tmp_path, "f0", 1, 50)
    stream = ps.read.files(str(tmp_path / "*.parquet"), time="ts")
    sink = stream.to.files(str(tmp_path / "out")).sink
    recovered = recover(compile_query(sink), Checkpoint.open(tmp_path / "ck"), Settings())
    for path in tmp_path.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    told: list[Event] = []
    loop = EpochLoop(recovered, InlineExecutor(), told.append)
    assert (loop.manifest, told, list(tmp_path.iterdir())) == (recovered.manifest, [], [])
