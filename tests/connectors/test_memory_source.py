"""A memory source offers what a test says, and is equal where its rows are."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.connectors.memory import MemoryConnector
from penstock.errors import ConfigError
from penstock.type_names import SQL_TYPES


def batch(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "ts": pa.array(ids, pa.timestamp("us"))})


def epochs(connector: MemoryConnector, limit: int) -> list[list[int]]:
    progress, found = None, []
    while True:
        offer = connector.open(connector.discover(), "ts").offer(progress, limit)
        splits = pickle.loads(pickle.dumps(offer.splits))
        found.append([i for s in splits for result in s.read(("id",)) for i in result.rows["id"].to_pylist()])
        progress = json.loads(json.dumps(offer.progress))
        if offer.ended:
            return found


@settings(deadline=None, max_examples=40)
@given(
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=6),
    cuts=st.integers(1, 5),
    limit=st.integers(1, 30),
    one=st.booleans(),
)
def test_every_row_once_and_in_order(sizes, cuts, limit, one):
    batches = [batch(*range(10 * i, 10 * i + size)) for i, size in enumerate(sizes)]
    found = epochs(MemoryConnector(tuple(batches), cuts, one), limit)
    assert [i for rows in found for i in rows] == [i for b in batches for i in b["id"].to_pylist()]
    if one:
        assert [len(rows) for rows in found] == sizes


@settings(deadline=None, max_examples=40)
@given(sizes=st.lists(st.integers(0, 9), min_size=1, max_size=6), cuts=st.integers(1, 5), limit=st.integers(1, 30))
def test_a_split_gives_the_same_rows_every_time(sizes, cuts, limit):
    """Also its rows without a time, a copy of it, and the split that is offered again for the same progress."""
    ids = iter(range(1000))
    batches = tuple(batch(*(next(ids) if n % 4 else None for n in range(size))) for size in sizes)
    connector, progress = MemoryConnector(batches, cuts), None
    while True:
        first, again = (connector.open(connector.discover(), "ts").offer(progress, limit) for _ in range(2))
        assert replace(first, splits=()) == replace(again, splits=())
        for split, same in zip(first.splits, again.splits, strict=True):
            rows = [list(one.read(("id",))) for one in (split, split, pickle.loads(pickle.dumps(split)), same)]
            assert rows[0] == rows[1] == rows[2] == rows[3]
        progress = first.progress
        if first.ended:
            return


def test_offers_fill_up_to_the_limit():
    connector = MemoryConnector((batch(1, 2), batch(3), batch(4, 5)))
    assert epochs(connector, 3) == [[1, 2, 3], [4, 5]]
    assert epochs(connector, 1) == [[1, 2], [3], [4, 5]]
    assert connector.open(connector.discover(), "ts").offer(None, 1).waiting == 3


def test_an_empty_batch_moves_progress_without_a_split():
    connector = MemoryConnector((batch(), batch(1)), one_batch_per_offer=True)
    offer = connector.open(connector.discover(), "ts").offer(None, 100)
    assert (offer.splits, offer.progress, offer.ended) == ((), {"batches": 1}, False)


def test_a_batch_is_cut_into_splits():
    connector = MemoryConnector((batch(1, 2, 3),), splits_per_batch=2)
    splits = connector.open(connector.discover(), "ts").offer(None, 100).splits
    assert [split.rows for split in splits] == [1, 2]


def test_equal_by_content():
    whole, chunked = batch(1, 2, 3), pa.concat_tables([batch(1), batch(2, 3)])
    assert MemoryConnector((whole,)) == MemoryConnector((chunked,))
    assert hash(MemoryConnector((whole,))) == hash(MemoryConnector((chunked,)))
    assert MemoryConnector((whole,)) == MemoryConnector((batch(0, 1, 2, 3).slice(1),))
    assert MemoryConnector((whole,)) != MemoryConnector((batch(1, 2, 4),))
    assert MemoryConnector((whole,)) != MemoryConnector((batch(1), batch(2, 3)))
    assert MemoryConnector((whole,)) != MemoryConnector((whole,), splits_per_batch=2)
    assert MemoryConnector((whole,)).identity() == MemoryConnector((whole,), splits_per_batch=2).identity()


def test_a_row_without_a_time_is_set_aside():
    rows = pa.table({"id": [1, 2, 3], "ts": pa.array([1, None, 3], pa.timestamp("us"))})
    connector = MemoryConnector((rows,), splits_per_batch=3)
    splits = connector.open(connector.discover(), "ts").offer(None, 9).splits
    results = [result for split in splits for result in split.read(("id",))]
    assert [r.rows["id"].to_pylist() for r in results] == [[1], [], [3]]
    assert results[1].bad["line"].to_pylist() == [2]


@pytest.mark.parametrize("options", [{"batches": ()}, {"splits_per_batch": 0}])
def test_options_are_checked(options):
    with pytest.raises(ConfigError):
        MemoryConnector(**({"batches": (batch(1),)} | options))


def test_batches_have_one_schema():
    with pytest.raises(ConfigError, match="must have one schema"):
        MemoryConnector((batch(1), pa.table({"id": [1]})))


def test_what_lies_beneath_a_null_does_not_matter():
    def over(hidden: int) -> pa.Table:
        times = pa.array([1, 2], pa.timestamp("us"))
        values = pa.Array.from_buffers(pa.int64(), 2, [pa.py_buffer(b"\x01"), pa.array([5, hidden]).buffers()[1]])
        assert values.to_pylist() == [5, None]
        return pa.table({"v": values, "ts": times})

    assert MemoryConnector((over(1),)) == MemoryConnector((over(2),))


def test_every_column_type_has_a_digest():
    types = [*SQL_TYPES.values(), pa.decimal128(10, 2)]
    rows = pa.table([pa.nulls(2, type_) for type_ in types], names=[str(i) for i in range(len(types))])
    assert MemoryConnector((rows,)) == MemoryConnector((rows.slice(0),))
