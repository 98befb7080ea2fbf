"""Tables are gathered up to a number of rows, and other parts up to a size."""

from __future__ import annotations

import pyarrow as pa

from penstock.operators.arrange import gathered, in_blocks


def test_parts_are_gathered_up_to_the_most_rows_and_a_larger_one_comes_alone() -> None:
    parts = [[1], [], [2, 3], [4], [5, 6, 7, 8], [9]]
    assert list(gathered(parts, 3, len)) == [[[1], [2, 3]], [[4]], [[5, 6, 7, 8]], [[9]]]
    assert list(gathered([[]], 3, len)) == []


def test_the_size_of_a_part_is_what_the_caller_says() -> None:
    assert list(gathered([1, 0, 2, 5], 3, lambda part: part)) == [[1, 2], [5]]


def test_blocks_hold_the_same_rows() -> None:
    tables = [pa.table({"a": [1]}), pa.table({"a": [2, 3]})]
    assert [block.to_pydict() for block in in_blocks(tables)] == [{"a": [1, 2, 3]}]
