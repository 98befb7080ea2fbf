from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.errors import ConfigError, CorruptCheckpointError, SinkError
from penstock.sinks.base import RowWriter
from penstock.sinks.collected import CollectedSink, MemoryResults
from penstock.sinks.files import COMPRESSIONS, FilesSink
from penstock.sinks.terminal import rows_as_table

ROWS = pa.table({"k": [1, 2], "s": ["a", None]})


def staged(sink: FilesSink, tmp_path: Path, name: str):  # type: ignore[no-untyped-def]
    writer = RowWriter(sink.staging(tmp_path, "results") / name, ROWS.schema)
    writer.write(ROWS)
    return writer.finish("results")


def test_publishing_twice_is_publishing_once(tmp_path: Path) -> None:
    sink = FilesSink(str(tmp_path / "out"))
    sink.prepare(tmp_path, "results", "q", 0)
    file = staged(sink, tmp_path, "e000000000001-a.parquet")
    for _ in range(2):
        sink.publish(tmp_path, "results", 1, [file])
    assert pq.read_table(tmp_path / "out").equals(ROWS)


def test_a_reader_of_the_folder_does_not_see_what_is_only_staged(tmp_path: Path) -> None:
    sink = FilesSink(str(tmp_path / "out"))
    sink.prepare(tmp_path, "results", "q", 0)
    staged(sink, tmp_path, "e000000000001-a.parquet")
    assert list((tmp_path / "out").glob("*.parquet")) == []
    assert pq.read_table(tmp_path / "out").num_rows == 0


def test_no_rows_no_file(tmp_path: Path) -> None:
    writer = RowWriter(tmp_path / "x.parquet", ROWS.schema)
    writer.write(ROWS.slice(0, 0))
    assert writer.finish("results") is None
    assert not (tmp_path / "x.parquet").exists()


@pytest.mark.parametrize("name", COMPRESSIONS)
def test_files_are_compressed_as_the_query_wants_it(tmp_path: Path, name: str) -> None:
    table = ps.read.table(pa.table({"ts": [1, 2], "k": [3, 4]}), time="ts")
    table.to.files(str(tmp_path / "out"), compression=name).start(str(tmp_path / "checkpoint"), master="inline").wait()
    (file,) = (tmp_path / "out").glob("*.parquet")
    found = {pq.ParquetFile(file).metadata.row_group(0).column(n).compression for n in range(2)}
    assert found == {"UNCOMPRESSED" if name == "none" else name.upper()}


def test_an_unknown_compression_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown compression `zip`"):
        FilesSink("x", compression="zip")
    assert FilesSink("x", compression="zstd").identity() == FilesSink("x").identity()


def test_results_as_arrow_files_are_the_same_rows_and_can_be_read_again(tmp_path: Path) -> None:
    rows = pa.table({"ts": [1, 2], "k": [3, 4]})
    for options in ({"format": "arrow"}, {}):
        folder = tmp_path / options.get("format", "parquet")
        ready = ps.read.table(rows, time="ts").to.files(str(folder), **options)
        ready.start(str(tmp_path / f"checkpoint-{folder.name}"), master="inline").wait()
    assert not list((tmp_path / "arrow").glob("*.parquet"))
    again = ps.read.files(str(tmp_path / "arrow" / "*.arrow"), time="ts").to.memory()
    run = again.start(str(tmp_path / "checkpoint"), master="inline")
    run.wait()
    assert run.result().sort_by("ts").equals(pq.read_table(tmp_path / "parquet").sort_by("ts"))


def test_a_format_is_known_and_part_of_the_query() -> None:
    with pytest.raises(ConfigError, match="unknown format `csv`"):
        FilesSink("x", format="csv")
    assert FilesSink("x", format="arrow").identity() != FilesSink("x").identity()


def test_arrow_files_of_others_and_of_lost_epochs_are_refused(tmp_path: Path) -> None:
    sink = FilesSink(str(tmp_path / "out"), format="arrow")
    sink.prepare(tmp_path, "results", "q", 0)
    sink.publish(tmp_path, "results", 7, [staged(sink, tmp_path, "e000000000007-a.arrow")])
    with pytest.raises(CorruptCheckpointError, match="newest manifests"):
        sink.prepare(tmp_path, "results", "q", 6)
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "x.arrow").touch()
    with pytest.raises(SinkError, match="already holds other results"):
        FilesSink(str(tmp_path / "foreign")).prepare(tmp_path, "results", "one", 0)


def test_a_folder_of_other_results_is_refused(tmp_path: Path) -> None:
    FilesSink(str(tmp_path / "out")).prepare(tmp_path, "results", "one", 0)
    with pytest.raises(SinkError, match="already holds other results"):
        FilesSink(str(tmp_path / "out")).prepare(tmp_path, "results", "two", 0)
    (tmp_path / "foreign").mkdir()
    pq.write_table(ROWS, tmp_path / "foreign" / "x.parquet")
    with pytest.raises(SinkError, match="already holds other results"):
        FilesSink(str(tmp_path / "foreign")).prepare(tmp_path, "results", "one", 0)


def test_results_the_checkpoint_does_not_know_of_are_refused(tmp_path: Path) -> None:
    sink = FilesSink(str(tmp_path / "out"))
    sink.prepare(tmp_path, "results", "q", 0)
    sink.publish(tmp_path, "results", 7, [staged(sink, tmp_path, "e000000000007-a.parquet")])
    sink.prepare(tmp_path, "results", "q", 7)
    with pytest.raises(CorruptCheckpointError, match="newest manifests"):
        sink.prepare(tmp_path, "results", "q", 6)


def test_collected_rows_are_handed_over_once_per_epoch(tmp_path: Path) -> None:
    results = MemoryResults(ROWS.schema)
    sink = CollectedSink("memory", results.deliver)
    sink.prepare(tmp_path, "results", "q", 0)
    files = []
    for part in "ab":
        writer = RowWriter(sink.staging(tmp_path, "results") / f"e000000000001-{part}.arrow", ROWS.schema)
        writer.write(ROWS)
        files.append(writer.finish("results"))
    sink.publish(tmp_path, "results", 1, files)
    assert results.table().num_rows == 4
    assert MemoryResults(ROWS.schema).table().num_rows == 0


def test_the_terminal_shows_some_rows_and_counts_the_rest() -> None:
    table = rows_as_table(ROWS, "epoch 1", 1)
    assert table.row_count == 1
    assert table.caption == "and 1 more rows"
