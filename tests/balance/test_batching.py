"""How many hashes a site works on in an epoch when the state to look up does not fit into memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.balance.batching import MOST_TURNS, WORTH_ROWS, turns
from penstock.state.hash_ranges import HashRange, common, first_hashes, width_of

PAGES = 1_000


@pytest.mark.parametrize(
    ("arrived", "stored", "expected"),
    [
        (WORTH_ROWS, 2 * PAGES, 1),  # it fits, nearly
        (0, 100 * PAGES, 1),  # nothing has come: there is time
        (10 * WORTH_ROWS, 10 * PAGES, 1),  # as many as are worth it
        (10 * WORTH_ROWS, 40 * PAGES, 4),
        (1, 10 * PAGES, MOST_TURNS),
    ],
)
def test_rows_share_the_cost_of_looking_state_up(arrived: int, stored: int, expected: int) -> None:
    assert turns(arrived, stored, PAGES) == expected


@given(st.lists(st.tuples(st.integers(0, 999), st.integers(1, 50)), max_size=8), st.integers(0, 500))
def test_the_first_hashes_are_as_many_as_asked_for(parts: list[tuple[int, int]], width: int) -> None:
    ranges = [HashRange(1_000 * n + low, 1_000 * n + low + size) for n, (low, size) in enumerate(parts)]
    found = list(first_hashes(ranges, width))
    assert width_of(found) == min(width, width_of(ranges))
    assert common(found, ranges) == found
    assert [part.low for part in found] == [part.low for part in ranges][: len(found)]
