"""Cutting ranges of hashes into items."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.task.site.view import PartLimits, TableRows, cut, shortest_prefix
from penstock.state.hash_ranges import EVERYTHING, HashRange
from penstock.state.runs import HASH, TIME

hashes = st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 9), max_size=30)


def _rows(column: list[int], lengths: list[int] | None = None) -> TableRows:
    """Sorted rows with these hashes, and with texts of the given lengths."""
    texts = ["x" * n for n in lengths or [0] * len(column)]
    times = np.zeros(len(column), np.int64)
    return TableRows(pa.table({HASH: np.sort(np.asarray(column, np.uint64)), TIME: times, "text": texts}))


@given(st.lists(hashes, max_size=4), st.integers(1, 12))
def test_parts_cover_the_range_and_none_is_too_large(columns: list[list[int]], most: int) -> None:
    parts = list(cut(EVERYTHING, [_rows(column) for column in columns], PartLimits(rows=most)))
    assert [part.low for part in parts] == [0, *(part.high for part in parts[:-1])]
    assert parts[-1].high == EVERYTHING.high
    for part in parts:
        inside = [h for column in columns for h in column if part.low <= h < part.high]
        assert len(inside) <= most or len(set(inside)) == 1
        assert inside or len(parts) == 1


@given(st.lists(hashes, max_size=3), st.lists(hashes, max_size=3))
def test_borders_come_again_with_other_rows(some: list[list[int]], others: list[list[int]]) -> None:
    """A border is the shortest prefix between two rows, and with more rows it stays one."""
    few = [_rows(column) for column in some]
    many = [*few, *(_rows(column) for column in others)]
    borders = {part.low for part in cut(EVERYTHING, few, PartLimits(rows=1))}
    assert borders <= {part.low for part in cut(EVERYTHING, many, PartLimits(rows=1))}


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_the_border_lies_between_and_no_shorter_prefix_does(one: int, other: int) -> None:
    first, last = min(one, other), max(one, other)
    if first < last:
        border = shortest_prefix(first, last)
        assert first < border <= last
        zeros = (border & -border).bit_length() - 1
        step = 1 << (zeros + 1)
        assert (last // step) * step <= first  # no multiple of twice the step lies between


def test_a_range_is_cut_at_the_prefixes_of_its_rows() -> None:
    rows = _rows([1, 2, 5, 6, 7])
    assert list(cut(HashRange(0, 8), [rows], PartLimits(rows=2))) == [HashRange(0, 4), HashRange(4, 6), HashRange(6, 8)]


@given(st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 400)), max_size=30), st.integers(1, 2000))
def test_no_part_has_more_bytes_than_allowed_unless_it_is_one_hash(rows: list[tuple[int, int]], most: int) -> None:
    source = _rows([h for h, _ in rows], [n for _, n in sorted(rows)])
    parts = list(cut(EVERYTHING, [source], PartLimits(bytes=most)))
    assert [part.low for part in parts] == [0, *(part.high for part in parts[:-1])]
    for part in parts:
        assert source.size(part) <= most or len(set(source.inside(part).column(HASH).to_pylist())) == 1


def test_a_few_long_rows_are_cut_apart_whatever_the_mean() -> None:
    source = _rows(list(range(1000)), [1] * 998 + [5000, 5000])
    assert [part.low for part in cut(HashRange(0, 1000), [source], PartLimits(bytes=25_000))][-2:] != [0]
    assert max(source.size(part) for part in cut(HashRange(0, 1000), [source], PartLimits(bytes=25_000))) <= 25_000
