"""What has been published is remembered beside it: an emptied folder and an old checkpoint are noticed, and files that
readers take away are not."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.checkpoint.manifest import file_name
from penstock.engine.driver.published_record import rows_of
from penstock.errors import CheckpointError, CorruptCheckpointError, SinkError
from penstock.storage.faults import FaultPoint
from penstock.testing.ways import Way
from tests.support.crashes import Fault, Place, Scenario, newest_manifest, run_until_death

SECOND = 1_000_000
EPOCHS = 6


def _times(*seconds: int) -> pa.Table:
    return pa.table({"ts": pa.array([s * SECOND for s in seconds], pa.timestamp("us"))})


def query() -> ps.Stream:
    """Every epoch after the first closes a window, and has a late row."""
    batches = [_times(*([0] if n else []), 10 * n + 1) for n in range(EPOCHS)]
    return ps.read.batches(batches, time="ts").window(ps.tumbling("10s")).agg(n=ps.count())


def start(place: Place, epochs: int | None = None, **options: str) -> ps.Run:
    """Rows below the punctuation are late as a whole, so that each epoch but the first has one."""
    ready = query().to.files(str(place.results))
    until = {"until": f"{epochs} epochs"} if epochs else {}
    options = {"lateness": "row", **until, **options}
    return ready.start(str(place.checkpoint), master="inline", epoch="1ms", **options).wait()


def take(folder: Path, into: Path) -> None:
    """What a reader does who moves on with the files."""
    into.mkdir(exist_ok=True)
    for file in folder.glob("*.parquet"):
        file.rename(into / file.name)


def rows(*folders: Path) -> int:
    return sum(pq.read_metadata(file).num_rows for folder in folders for file in folder.glob("*.parquet"))


def remove(folder: Path) -> None:
    shutil.rmtree(folder)


def forget(folder: Path) -> None:
    shutil.rmtree(folder / "_penstock")


def empty(folder: Path) -> None:
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.mark.parametrize("harm", [remove, empty, forget], ids=lambda harm: harm.__name__)
@pytest.mark.parametrize("output", ["results", "late"])
@pytest.mark.parametrize("epochs", [3, None], ids=["half done", "finished"])
def test_a_folder_that_was_removed_or_emptied_is_noticed_and_there_is_a_choice(
    harm: Callable[[Path], None], output: str, epochs: int | None, place: Place
) -> None:
    start(place, epochs)
    folder = place.results if output == "results" else place.checkpoint / "late"
    shutil.copytree(folder, place.root / "backup")
    for choice in ("restore", "accept"):
        harm(folder)
        with pytest.raises(
            CheckpointError, match=f"the {rows_of(output)} that this query has published are missing"
        ) as e:
            start(place)
        assert str(folder) in e.value.detail
        assert "restore the folder" in e.value.hint
        assert "on_missing_results = 'accept'" in e.value.hint
        if choice == "restore":
            shutil.copytree(place.root / "backup", folder, dirs_exist_ok=True)
            start(place, 1)
    before, left = newest_manifest(place.checkpoint).totals, rows(folder)
    start(place, on_missing_results="accept")
    after = newest_manifest(place.checkpoint).totals
    counted = after.rows_out - before.rows_out if output == "results" else after.late_rows - before.late_rows
    assert rows(folder) == left + counted
    start(place)  # what was accepted is not asked again


def test_the_third_choice_is_to_begin_anew(place: Place) -> None:
    start(place)
    published = rows(place.results)
    shutil.rmtree(place.results)
    shutil.rmtree(place.checkpoint)
    start(place)
    assert rows(place.results) == published


def test_a_folder_that_nothing_was_published_in_may_go(place: Place) -> None:
    start(place, 3)
    shutil.rmtree(place.checkpoint / "bad")
    start(place)
    assert rows(place.results) == EPOCHS


def test_a_folder_put_back_from_an_older_backup_is_noticed(place: Place) -> None:
    start(place, 2)
    shutil.copytree(place.results, place.root / "older")
    start(place, 2)
    shutil.rmtree(place.results)
    (place.root / "older").rename(place.results)
    with pytest.raises(CheckpointError, match="result rows that this query has published are missing"):
        start(place)


def test_readers_may_take_published_files_away(place: Place) -> None:
    for _ in range(EPOCHS):
        start(place, 1)
        take(place.results, place.root / "taken")
        take(place.checkpoint / "late", place.root / "taken late")
    start(place)
    assert rows(place.results, place.root / "taken") == EPOCHS
    assert rows(place.root / "taken late") == EPOCHS - 1


@pytest.mark.parametrize("epochs", [1, 2, 4])
def test_an_older_checkpoint_that_is_put_back_after_files_were_taken_is_refused(epochs: int, place: Place) -> None:
    start(place, 1)
    shutil.copytree(place.checkpoint, place.root / "backup")
    start(place, epochs)
    take(place.results, place.root / "taken")
    shutil.rmtree(place.checkpoint)
    shutil.copytree(place.root / "backup", place.checkpoint)
    published = rows(place.results, place.root / "taken")
    with pytest.raises(CorruptCheckpointError, match="newest manifests of the checkpoint are missing") as caught:
        start(place)
    assert f"epoch {epochs + 1} is published" in caught.value.detail
    assert "restore the newest checkpoint" in caught.value.hint
    assert rows(place.results, place.root / "taken") == published


def _put_back(place: Place) -> None:
    """The checkpoint that was copied to `backup`."""
    shutil.rmtree(place.checkpoint)
    shutil.copytree(place.root / "backup", place.checkpoint)


def test_an_older_checkpoint_is_refused_by_the_files_alone_where_the_record_is_gone_too(place: Place) -> None:
    start(place, 3)
    shutil.copytree(place.checkpoint, place.root / "backup")
    start(place, 1)
    _put_back(place)
    forget(place.results)
    published = rows(place.results)
    with pytest.raises(CorruptCheckpointError, match="newest manifests of the checkpoint are missing"):
        start(place, on_missing_results="accept")
    assert rows(place.results) == published


def test_an_older_checkpoint_may_be_put_back_while_nothing_is_published(place: Place) -> None:
    parts = [_times(second) for second in range(5)]
    one = ps.read.batches(parts, time="ts").window(ps.tumbling("10s")).agg(n=ps.count()).to.files(str(place.results))
    one.start(str(place.checkpoint), master="inline", epoch="1ms", until="2 epochs").wait()
    shutil.copytree(place.checkpoint, place.root / "backup")
    one.start(str(place.checkpoint), master="inline", epoch="1ms", until="2 epochs").wait()
    _put_back(place)
    one.start(str(place.checkpoint), master="inline", epoch="1ms").wait()
    assert pq.read_table(place.results).column("n").to_pylist() == [5]


def test_going_back_on_purpose_is_possible(place: Place) -> None:
    start(place, 2)
    shutil.copytree(place.checkpoint, place.root / "backup")
    shutil.copytree(place.results, place.root / "earlier")
    start(place)
    shutil.rmtree(place.checkpoint)
    shutil.copytree(place.root / "backup", place.checkpoint)
    shutil.rmtree(place.results)
    start(place, on_missing_results="accept")
    assert rows(place.results, place.root / "earlier") == EPOCHS


def test_rows_for_a_callback_are_not_skipped_by_an_older_checkpoint(tmp_path: Path) -> None:
    given: list[int] = []
    ready = query().to.callback(lambda epoch, rows: given.append(epoch))
    for _ in range(2):
        ready.start(str(tmp_path / "ck"), master="inline", epoch="1ms", until="2 epochs").wait()
    (tmp_path / "ck" / "manifests" / file_name(4)).unlink()
    with pytest.raises(CorruptCheckpointError, match="newest manifests"):
        ready.start(str(tmp_path / "ck"), master="inline")
    assert given == [2, 3, 4]


@pytest.mark.parametrize("nth", range(1, 8))
@pytest.mark.parametrize(
    "point",
    [FaultPoint.PUBLISH_NOTED, FaultPoint.PUBLISHED_ONE, FaultPoint.RECORDED, FaultPoint.PUBLISHED],
    ids=lambda point: point.value,
)
@pytest.mark.parametrize("again", [False, True], ids=["one death", "two deaths"])
def test_readers_may_take_files_of_an_epoch_whose_publishing_was_cut_short(
    again: bool, point: FaultPoint, nth: int, place: Place
) -> None:
    """Neither is a file that a reader has taken missed, nor published again."""
    parts = [pa.table({"ts": pa.array([n * 10 + i for i in range(6)], pa.int64())}) for n in range(8)]
    scenario = Scenario(ps.read.batches(parts, time="ts", splits_per_batch=3))
    assert run_until_death(scenario, place, Way(), Fault(point, nth))
    take(place.results, place.root / "taken")
    if again and run_until_death(scenario, place, Way(), Fault(point, 1)):
        take(place.results, place.root / "taken")
    run = scenario.into(place).start(str(place.checkpoint), master="inline", epoch="1ms").wait()
    assert run.progress.state == "finished"
    take(place.results, place.root / "taken")
    found = pa.concat_tables(pq.read_table(file) for file in (place.root / "taken").glob("*.parquet"))
    assert sorted(found.column("ts").to_pylist()) == [n * 10 + i for n in range(8) for i in range(6)]


def test_the_record_is_in_no_readers_way(place: Place) -> None:
    start(place)
    assert duckdb.sql(f"SELECT count(*) FROM '{place.results}/*.parquet'").fetchall() == [(EPOCHS,)]
    assert duckdb.sql(f"SELECT count(*) FROM read_parquet('{place.results}/**/*.parquet')").fetchall() == [(EPOCHS,)]
    assert pq.read_table(place.results).num_rows == EPOCHS
    again = ps.read.files(str(place.results), time="window_start").to.memory()
    assert again.start(master="inline").wait().result().num_rows == EPOCHS


def test_a_damaged_record_is_named_and_can_be_written_anew(place: Place) -> None:
    start(place, 3)
    (record,) = (place.results / "_penstock").glob("published-*")
    record.write_bytes(b"")
    with pytest.raises(SinkError, match=f"record {record.name}") as caught:
        start(place)
    assert str(record) in caught.value.detail
    record.write_text(newest_manifest(place.checkpoint).query_id)
    start(place)
    assert rows(place.results) == EPOCHS


def test_a_folder_that_another_query_has_taken_meanwhile_is_refused(place: Place) -> None:
    start(place, 3)
    shutil.rmtree(place.results)
    other = ps.read.batches([_times(1)], time="ts").to.files(str(place.results))
    other.start(str(place.root / "other"), master="inline").wait()
    for choice in ("stop", "accept"):
        with pytest.raises(SinkError, match="already holds other results"):
            start(place, on_missing_results=choice)


def test_files_of_somebody_else_in_a_folder_without_a_record_are_refused(place: Place) -> None:
    """Nothing has been published yet, so they cannot be the query's own."""
    start(place, 1)
    forget(place.results)
    pq.write_table(_times(1), place.results / "mine.parquet")
    for choice in ("stop", "accept"):
        with pytest.raises(SinkError, match="already holds other results"):
            start(place, on_missing_results=choice)


def test_a_record_of_another_query_where_late_rows_went_before_says_nothing(place: Place) -> None:
    start(place, 4, late=str(place.root / "first"))
    shutil.rmtree(place.root / "first")
    other = ps.read.batches([_times(n) for n in range(9)], time="ts").to.files(str(place.root / "first"))
    other.start(str(place.root / "other"), master="inline", epoch="1ms").wait()
    with pytest.raises(CheckpointError, match="late rows that this query has published are missing"):
        start(place, late=str(place.root / "second"))


def test_what_a_killed_process_left_of_a_record_is_swept_up(place: Place) -> None:
    start(place, 1)
    leftover = place.results / "_penstock" / ".published-000000000000.0123456789abcdef"
    leftover.write_text("half an i")
    start(place)
    assert not leftover.exists()
    assert rows(place.results) == EPOCHS


def test_late_rows_may_go_elsewhere_and_back_again(place: Place) -> None:
    for epochs, late in enumerate(["first", "second", "first", "second"]):
        start(place, 1 if epochs else 2, late=str(place.root / late))
    start(place, late=str(place.root / "first"))
    assert rows(place.root / "first", place.root / "second") == EPOCHS - 1
    shutil.rmtree(place.root / "first")
    with pytest.raises(CheckpointError, match="late rows that this query has published are missing"):
        start(place, late=str(place.root / "first"))
