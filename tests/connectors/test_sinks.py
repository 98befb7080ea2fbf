from __future__ import annotations

import io
import math
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash
from rich.console import Console

import penstock as ps
from penstock.connectors.sinks.files import COMPRESSIONS, FilesSink
from penstock.connectors.sinks.sink import (
    CollectedSink,
    MemoryResults,
    Record,
    RowWriter,
    advance,
    claim,
    read_record,
    what_is_wrong,
)
from penstock.connectors.sinks.terminal import print_rows
from penstock.errors import ConfigError, SinkError

ROWS = pa.table({"k": [1, 2], "s": ["a", None]})


def staged(sink: FilesSink, tmp_path: Path, name: str):  # type: ignore[no-untyped-def]
    writer = RowWriter(sink.staging(tmp_path, "results") / name, ROWS.schema)
    writer.write(ROWS)
    return writer.finish("results")


def test_a_published_file_is_known_as_such_also_when_a_reader_has_taken_it(tmp_path: Path) -> None:
    sink = FilesSink(str(tmp_path / "out"))
    sink.prepare(tmp_path, "results")
    first, second = (staged(sink, tmp_path, f"e000000000001-{part}.parquet") for part in "ab")
    sink.publish(tmp_path, "results", 1, [first])
    assert pq.read_table(tmp_path / "out").equals(ROWS)
    (tmp_path / "out" / first.name).unlink()
    assert sink.is_published(tmp_path, "results", first)
    assert not sink.is_published(tmp_path, "results", second)


def test_a_file_is_noted_before_it_can_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By whoever looks into the folder, and not only by the process that writes: that one may be killed."""
    sink, rename, noted = FilesSink(str(tmp_path / "out")), os.rename, []

    def renamed(old: Path, new: Path) -> None:
        noted.append((sink.staging(tmp_path, "results") / "e000000000001-publishing").read_text().split())
        rename(old, new)

    sink.prepare(tmp_path, "results")
    files = [staged(sink, tmp_path, f"e000000000001-{part}.parquet") for part in "ab"]
    monkeypatch.setattr(os, "rename", renamed)
    sink.publish(tmp_path, "results", 1, files)
    assert noted == [[files[0].name], [files[0].name, files[1].name]]


@pytest.mark.parametrize("extension", ["parquet", "arrow"])
def test_the_checksum_of_a_staged_file_covers_all_its_bytes(extension: str, tmp_path: Path) -> None:
    writer = RowWriter(tmp_path / f"x.{extension}", ROWS.schema)
    writer.write(ROWS)
    writer.write(ROWS)
    file = writer.finish("results")
    assert file is not None
    content = (tmp_path / file.name).read_bytes()
    assert (file.rows, file.size, file.checksum) == (4, len(content), xxhash.xxh3_64_hexdigest(content))
    assert what_is_wrong(tmp_path / file.name, file) == ""
    for place in range(len(content)):
        (tmp_path / file.name).write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        assert "checksum" in what_is_wrong(tmp_path / file.name, file)
    (tmp_path / file.name).write_bytes(content[:-1])
    assert f"{len(content) - 1:,} bytes" in what_is_wrong(tmp_path / file.name, file)


def test_a_reader_of_the_folder_does_not_see_what_is_only_staged(tmp_path: Path) -> None:
    sink = FilesSink(str(tmp_path / "out"))
    sink.prepare(tmp_path, "results")
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


def test_arrow_files_of_others_are_refused_and_their_epochs_seen(tmp_path: Path) -> None:
    sink = FilesSink(str(tmp_path / "out"), format="arrow")
    sink.prepare(tmp_path, "results")
    sink.publish(tmp_path, "results", 7, [staged(sink, tmp_path, "e000000000007-a.arrow")])
    assert sink.newest(tmp_path, "results") == 7
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "x.arrow").touch()
    with pytest.raises(SinkError, match="already holds other results"):
        FilesSink(str(tmp_path / "foreign")).check(tmp_path, "results", "one")


def test_a_folder_of_other_results_is_refused(tmp_path: Path) -> None:
    sink = FilesSink(str(tmp_path / "out"))
    sink.prepare(tmp_path, "results")
    assert claim(sink.staging(tmp_path, "results"), Record("one", 0))
    sink.check(tmp_path, "results", "one")
    for other in ("two", None):
        with pytest.raises(SinkError, match="already holds other results"):
            sink.check(tmp_path, "results", other)
    (tmp_path / "foreign").mkdir()
    pq.write_table(ROWS, tmp_path / "foreign" / "x.parquet")
    with pytest.raises(SinkError, match="already holds other results"):
        FilesSink(str(tmp_path / "foreign")).check(tmp_path, "results", "one")


def test_a_record_says_whose_a_folder_is_and_what_is_published(tmp_path: Path) -> None:
    assert read_record(tmp_path / "absent") is None
    assert claim(tmp_path, Record("one", 0))
    assert not claim(tmp_path, Record("two", 0))
    advance(tmp_path, 0, 7)
    assert read_record(tmp_path) == Record("one", 7)
    assert [path.name for path in tmp_path.iterdir()] == ["published-000000000007"]


def test_of_two_records_the_newer_counts(tmp_path: Path) -> None:
    """An older backup may have been copied over the folder."""
    for epoch in (7, 3):
        assert claim(tmp_path, Record("one", epoch))
    assert read_record(tmp_path) == Record("one", 7)
    (tmp_path / "published-000000000007").write_bytes(b"")
    with pytest.raises(SinkError, match="record published-000000000007"):
        read_record(tmp_path)


@pytest.mark.parametrize("content", [b"", b"\0" * 32, b"one\n", b"x" * 100, b"\xff"])
def test_a_damaged_record_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "published-000000000007").write_bytes(content)
    with pytest.raises(SinkError, match="record published-000000000007"):
        read_record(tmp_path)


def test_collected_rows_are_handed_over_once_per_epoch(tmp_path: Path) -> None:
    results = MemoryResults(ROWS.schema)
    sink = CollectedSink("memory", results.deliver)
    sink.prepare(tmp_path, "results")
    files = []
    for part in "ab":
        writer = RowWriter(sink.staging(tmp_path, "results") / f"e000000000001-{part}.arrow", ROWS.schema)
        writer.write(ROWS)
        files.append(writer.finish("results"))
    sink.publish(tmp_path, "results", 1, files)
    assert results.table().num_rows == 4
    assert MemoryResults(ROWS.schema).table().num_rows == 0


def lines_of(rows: pa.Table, title: str, most: int) -> list[str]:
    """Return what the terminal shows, line by line."""
    printed = io.StringIO()
    print_rows(Console(file=printed, width=100), rows, title, most)
    return printed.getvalue().splitlines()


def test_the_terminal_shows_some_rows_and_counts_the_rest() -> None:
    first, *table, last = lines_of(ROWS, "epoch 1", 1)
    assert (first, last) == ("epoch 1", "and 1 more rows")
    assert len([line for line in table if line.startswith("│")]) == 1
    assert lines_of(ROWS, "", 5)[0].startswith("┏")


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([68.963, 69.8462, None], ["68.9630", "69.8462", "-"]),
        ([1234.0, 2.0, math.nan], ["1,234", "2", "nan"]),
        ([123456.789, 0.25, -0.125], ["123,456.789", "0.250", "-0.125"]),
        ([1 / 3, 20 / 3], ["0.333333", "6.666667"]),
        ([0.1 + 0.2, 0.0, math.inf], ["0.3", "0.0", "inf"]),
        ([1e-9, 1.5], ["1e-09", "1.5"]),
        ([2.5e21, 1.5], ["2.5e+21", "1.5"]),
        ([1234567.8, 9.5], ["1,234,567.8", "9.5"]),
        ([1234567.8, -0.4e15], ["1,234,568", "-400,000,000,000,000"]),
    ],
)
def test_numbers_of_a_column_on_the_terminal_have_the_same_decimals(
    values: list[float | None], shown: list[str]
) -> None:
    rows = pa.table({"v": pa.array(values, pa.float64())})
    assert [line.strip("│ ") for line in lines_of(rows, "", 9) if line.startswith("│")] == shown
