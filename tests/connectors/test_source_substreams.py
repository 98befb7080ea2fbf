"""Substreams of sources: which splits are of which, and with which offer each of them is finished."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.connectors.files.source import FilesConnector
from penstock.connectors.memory import MemoryConnector
from penstock.connectors.source import Offer
from penstock.errors import ConfigError, SourceError

SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.int64())])


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "ts": list(ids)}, schema=SCHEMA)


def write(folder: Path, name: str, ids: range, unit: int = 1) -> str:
    path = folder / f"{name}.parquet"
    pq.write_table(rows(*ids), path, row_group_size=unit)
    return str(path)


def shown(offer: Offer) -> dict[str, list[int]]:
    """The rows of each substream of an offer, in order."""
    found: dict[str, list[int]] = {}
    for split in pickle.loads(pickle.dumps(offer.splits)):
        for result in split.read(("id",)):
            found.setdefault(split.substream, []).extend(result.rows["id"].to_pylist())
    return found


def offers(connector: FilesConnector, limit: int) -> list[Offer]:
    """All offers of a bounded source, with a new reader and the progress through JSON at every epoch."""
    found: list[Offer] = []
    while not found or not found[-1].ended:
        progress = json.loads(json.dumps(found[-1].progress)) if found else None
        found.append(connector.open(SCHEMA, "ts").offer(progress, limit))
        assert len(found) < 1_000
    return found


def apart(folder: Path, **options: object) -> FilesConnector:
    return FilesConnector(str(folder), substreams="files", **options)  # type: ignore[arg-type]


def test_files_are_read_side_by_side_and_finish_one_by_one(tmp_path: Path) -> None:
    long, short, middle = (write(tmp_path, n, range(c)) for n, c in (("long", 9), ("short", 2), ("middle", 5)))
    found = offers(apart(tmp_path), 6)
    assert [shown(offer) for offer in found] == [
        {long: [0, 1], middle: [0, 1], short: [0, 1]},
        {long: [2, 3, 4], middle: [2, 3, 4]},
        {long: [5, 6, 7, 8]},
    ]
    assert [offer.finished for offer in found] == [(short,), (middle,), (long,)]
    assert [offer.waiting for offer in found] == [10, 4, 0]


@settings(max_examples=30, deadline=None)
@given(
    counts=st.lists(st.integers(0, 12), min_size=1, max_size=4),
    limit=st.integers(1, 30),
    split_rows=st.integers(1, 8),
    unit=st.integers(1, 4),
)
def test_every_row_once_and_in_the_order_of_its_file(tmp_path_factory, counts, limit, split_rows, unit):
    folder = tmp_path_factory.mktemp("data")
    expected = {write(folder, f"f{i}", range(count), unit): list(range(count)) for i, count in enumerate(counts)}
    found: dict[str, list[int]] = {path: [] for path in expected}
    finished: list[str] = []
    for offer in offers(apart(folder, split_rows=split_rows), limit):
        parts = shown(offer)
        left = {path for path in expected if len(found[path]) < len(expected[path])}
        assert parts.keys() == left  # every unfinished file that has rows has a part in every offer
        for path, ids in parts.items():
            found[path] += ids
        finished += offer.finished
    assert found == expected
    assert sorted(finished) == sorted(expected)


def test_a_file_that_comes_later_is_a_substream_that_begins_later(tmp_path: Path) -> None:
    first = write(tmp_path, "b", range(4))
    reader = apart(tmp_path, follow=True).open(SCHEMA, "ts")
    one = reader.offer(None, 2)
    second = write(tmp_path, "a", range(3))
    two = reader.offer(one.progress, 4)
    assert (shown(one), one.finished) == ({first: [0, 1]}, ())
    assert (shown(two), two.finished) == ({first: [2, 3], second: [0, 1]}, (first,))
    three = reader.offer(two.progress, 4)
    assert (shown(three), three.finished, three.ended) == ({second: [2]}, (second,), False)
    assert reader.offer(three.progress, 4).splits == ()
    assert reader.offer(three.progress, 4).finished == ()


@pytest.mark.parametrize("change", ["vanish", "grow"])
def test_each_partly_read_file_must_stay_as_it_is(tmp_path: Path, change: str) -> None:
    write(tmp_path, "a", range(4))
    path = write(tmp_path, "b", range(4))
    reader = apart(tmp_path).open(SCHEMA, "ts")
    begun = reader.offer(None, 2)
    if change == "vanish":
        os.unlink(path)
    else:
        write(tmp_path, "b", range(9))
    with pytest.raises(SourceError, match=r"b\.parquet"):
        reader.offer(begun.progress, 2)


def test_files_are_one_substream_that_never_finishes_unless_asked_otherwise(tmp_path: Path) -> None:
    write(tmp_path, "a", range(2))
    write(tmp_path, "b", range(2))
    (offer,) = offers(FilesConnector(str(tmp_path)), 10)
    assert shown(offer) == {"files": [0, 1, 0, 1]}
    assert offer.finished == ()
    assert apart(tmp_path).identity() != FilesConnector(str(tmp_path)).identity()
    with pytest.raises(ConfigError, match="unknown substreams `file`") as raised:
        FilesConnector(str(tmp_path), substreams="file")
    assert "`files`" in raised.value.hint


def test_batches_in_memory_are_of_the_substreams_they_name() -> None:
    connector = MemoryConnector((rows(1), rows(2), rows(3)), substreams=("a", "b", "a"), finishing=True)
    reader = connector.open(SCHEMA, "ts")
    first = reader.offer(None, 2)
    second = reader.offer(first.progress, 2)
    assert (shown(first), first.finished) == ({"a": [1], "b": [2]}, ("b",))
    assert (shown(second), second.finished) == ({"a": [3]}, ("a",))


def test_substreams_in_memory_stay_open_unless_told_to_finish() -> None:
    connector = MemoryConnector((rows(1), rows(2)), substreams=("a", "b"))
    assert connector.open(SCHEMA, "ts").offer(None, 9).finished == ()
    assert connector != MemoryConnector((rows(1), rows(2)))
    assert connector != MemoryConnector((rows(1), rows(2)), substreams=("a", "c"))
    assert hash(connector) == hash(MemoryConnector((rows(1), rows(2)), substreams=("a", "b")))


@pytest.mark.parametrize("names", [("a",), ("a", "")])
def test_every_batch_needs_the_name_of_its_substream(names: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match="one substream for each batch"):
        MemoryConnector((rows(1), rows(2)), substreams=names)
