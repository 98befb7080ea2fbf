"""Compressed text files: read as the text they hold, in little memory, from the middle too, never half in silence."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.connectors.files import split as file_split
from penstock.connectors.files import text_lines
from penstock.connectors.files.source import FilesConnector
from penstock.connectors.source import ReadResult
from penstock.errors import SourceError

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("ts", pa.int64())])


def packed(data: bytes, extension: str) -> bytes:
    return gzip.compress(data) if extension == ".gz" else pa.compress(data, codec="zstd", asbytes=True)


def csv_of(first: int, rows: int) -> bytes:
    return "".join(f"{i},n{i},{i}\n" for i in range(first, first + rows)).encode()


def json_of(first: int, rows: int) -> bytes:
    return "".join(json.dumps({"id": i, "name": f"n{i}", "ts": i}) + "\n" for i in range(first, first + rows)).encode()


def text_of(kind: str, rows: int) -> bytes:
    return b"id,name,ts\n" + csv_of(0, rows) if kind == "csv" else json_of(0, rows)


def read(path: Path, limit: int, anew: bool = False, **options: object) -> ReadResult:
    """All rows, a limit an epoch; `anew`: no process goes on with a file that another one began."""
    connector = FilesConnector(str(path), **options)  # type: ignore[arg-type]
    rows, bad, progress, ended = [SCHEMA.empty_table()], [], None, False
    while not ended:
        if anew:
            text_lines._streams._kept.clear()
        offer = connector.open(SCHEMA, "ts").offer(progress, limit)
        for result in (result for split in offer.splits for result in split.read(tuple(SCHEMA.names))):
            rows.append(result.rows)
            bad += [] if result.bad is None else [result.bad]
        progress, ended = json.loads(json.dumps(offer.progress)), offer.ended
    return ReadResult(pa.concat_tables(rows), pa.concat_tables(bad) if bad else None)


@pytest.mark.parametrize("extension", [".gz", ".zst"])
@pytest.mark.parametrize("kind", ["csv", "json", "jsonl", "ndjson"])
def test_compressed_files_are_read_like_the_text_they_hold(tmp_path, kind, extension):
    (tmp_path / f"a.{kind}{extension}").write_bytes(packed(text_of(kind, 50), extension))
    (tmp_path / f"b.{kind}").write_bytes(text_of(kind, 50))
    found = read(tmp_path, 10**6).rows["id"].to_pylist()
    assert found == [*range(50), *range(50)]
    assert FilesConnector(str(tmp_path / f"a.{kind}{extension}")).discover().names == SCHEMA.names


@settings(max_examples=20, deadline=None)
@given(
    extension=st.sampled_from([".gz", ".zst"]),
    kind=st.sampled_from(["csv", "jsonl"]),
    rows=st.integers(0, 60),
    bad=st.sets(st.integers(0, 59), max_size=4),
    limit=st.integers(7, 70),
    piece=st.integers(100, 900),
    anew=st.booleans(),
)
def test_progress_in_the_middle_of_a_compressed_file_is_exact(
    tmp_path_factory, extension, kind, rows, bad, limit, piece, anew
):
    path = tmp_path_factory.mktemp("packed") / f"a.{kind}"
    good = text_of(kind, rows).splitlines(keepends=True)
    head = 1 if kind == "csv" else 0
    text = b"".join(b"rubbish\n" if i - head in bad else line for i, line in enumerate(good))
    path.write_bytes(text)
    plain = read(path, 10**6, missing="null")
    compressed = path.with_name(path.name + extension)
    compressed.write_bytes(packed(text, extension))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_split, "_PIECE", piece)
        found = read(compressed, limit, anew, missing="null")
    assert found.rows.equals(plain.rows)
    named = [] if plain.bad is None else plain.bad.drop_columns("file").to_pylist()
    assert named == ([] if found.bad is None else found.bad.drop_columns("file").to_pylist())


def test_a_file_of_several_members_is_one_text(tmp_path):
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"id,name,ts\n" + csv_of(0, 10)) + gzip.compress(csv_of(10, 10)))
    parts = [pa.compress(data, codec="zstd", asbytes=True) for data in (json_of(20, 10), json_of(30, 10))]
    (tmp_path / "b.jsonl.zst").write_bytes(b"".join(parts))
    assert read(tmp_path, 7).rows["id"].to_pylist() == list(range(40))


@pytest.mark.parametrize(
    ("extension", "damage"),
    [(".gz", "truncated"), (".zst", "truncated"), (".gz", "flipped"), (".gz", "text"), (".zst", "text")],
)
def test_a_damaged_compressed_file_is_refused_before_any_row_is_read(tmp_path, extension, damage):
    path = tmp_path / f"a.csv{extension}"
    text = text_of("csv", 5000)
    data = bytearray(packed(text, extension))
    match damage:
        case "truncated":
            data = data[: len(data) // 2]
        case "flipped":
            data[len(data) // 2] ^= 0xFF
        case _:
            data = bytearray(text)
    path.write_bytes(bytes(data))
    codec = "gzip" if extension == ".gz" else "zstd"
    with pytest.raises(SourceError, match=rf"a\.csv{extension}` is not a complete {codec} file") as error:
        FilesConnector(str(path)).open(SCHEMA, "ts").offer(None, 10)
    assert error.value.detail
    assert error.value.hint


def test_an_empty_compressed_file_has_no_rows(tmp_path):
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b""))
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(json_of(0, 3)))
    assert FilesConnector(str(tmp_path)).discover().names == SCHEMA.names
    assert read(tmp_path, 10).rows["id"].to_pylist() == [0, 1, 2]


def test_compressed_files_are_followed(tmp_path):
    connector = FilesConnector(str(tmp_path), follow=True)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(json_of(0, 5)))
    progress, found = None, []
    for epoch in range(6):
        if epoch == 2:
            (tmp_path / "b.jsonl.zst").write_bytes(packed(json_of(5, 5), ".zst"))
        offer = connector.open(SCHEMA, "ts").offer(progress, 2)
        found += [i for s in offer.splits for r in s.read(("id",)) for i in r.rows["id"].to_pylist()]
        progress = offer.progress
        assert not offer.ended
    assert found == list(range(10))


def test_a_compressed_file_is_read_in_bounded_memory(tmp_path):
    line = json.dumps({"id": 1, "name": "x" * 5000, "ts": 1}) + "\n"
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(line.encode() * 24_000, 1))  # 120 MB of text
    (split,) = FilesConnector(str(tmp_path)).open(SCHEMA, "ts").offer(None, 10**6).splits
    before, most, rows = pa.total_allocated_bytes(), 0, 0
    tracemalloc.start()
    for result in split.read(("id", "name", "ts")):
        rows += result.rows.num_rows
        most = max(most, pa.total_allocated_bytes() - before)
        del result
    assert rows == 24_000
    assert tracemalloc.get_traced_memory()[1] < 80 << 20
    assert most < 80 << 20
    tracemalloc.stop()


def test_a_compressed_parquet_file_is_refused(tmp_path):
    (tmp_path / "a.parquet.gz").write_bytes(b"x")
    with pytest.raises(SourceError, match="only CSV and JSON files may be compressed as a whole"):
        FilesConnector(str(tmp_path)).open(SCHEMA, "ts").offer(None, 10)
