"""Which panes of several tables of partials are in one of them only."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.operators.protocol import Stored
from penstock.operators.window.windows import apart
from penstock.progress.mark import MAX_TIME, MIN_TIME

tables = st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=6), max_size=5)


def _stored(panes: list[int], number: int, spare: int = 0) -> Stored:
    rows = pa.table({"#time": pa.array(panes, pa.int64()), "from": pa.array([number] * len(panes), pa.int64())})
    return Stored(rows, min(panes) - spare, max(panes) + spare)


def _pairs(found: list[pa.Table]) -> list[tuple[int, int]]:
    return [pair for table in found for pair in zip(*(column.to_pylist() for column in table.columns), strict=True)]


@given(tables, st.integers(0, 2))
def test_no_row_is_lost_and_what_is_alone_is_in_one_table(panes: list[list[int]], spare: int) -> None:
    alone, shared = apart([_stored(own, number, spare) for number, own in enumerate(panes)])
    assert sorted(_pairs(alone) + _pairs(shared)) == sorted((pane, n) for n, own in enumerate(panes) for pane in own)
    holders = {pane: {n for n, own in enumerate(panes) if pane in own} for pane, _ in _pairs(alone)}
    assert all(len(tables) == 1 for tables in holders.values())
    assert not {pane for pane, _ in _pairs(alone)} & {pane for pane, _ in _pairs(shared)}


def test_only_the_panes_that_two_tables_reach_into_are_shared() -> None:
    alone, shared = apart([_stored([0, 10, 20], 0), _stored([20, 30], 1), _stored([40], 2)])
    assert sorted(_pairs(shared)) == [(20, 0), (20, 1)]
    assert sorted(_pairs(alone)) == [(0, 0), (10, 0), (30, 1), (40, 2)]


def test_a_table_alone_is_not_copied() -> None:
    part = _stored([MIN_TIME, MAX_TIME], 0)
    assert apart([part]) == ([part.rows], [])
    assert apart([part])[0][0] is part.rows


def test_a_table_inside_another_ones_times_leaves_only_what_is_before_it() -> None:
    alone, shared = apart([_stored([0, 50, 90], 0), _stored([40, 60], 1)])
    assert _pairs(alone) == [(0, 0)]
    assert sorted(_pairs(shared)) == [(40, 1), (50, 0), (60, 1), (90, 0)]
    assert np.all([table.num_rows for table in shared])
