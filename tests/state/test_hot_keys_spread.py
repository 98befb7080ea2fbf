"""Cells: each row of the cut port goes to one of them, and they follow the number of sites."""

from __future__ import annotations

import itertools
import pickle

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from penstock.state.directory import Directory, uniform
from penstock.state.hash_ranges import EVERYTHING, HASH_END, HashRange, point, remaining
from penstock.state.hot_keys import Cells, too_wide

HASHES = st.integers(0, HASH_END - 1)
SITES = st.integers(2, 9).flatmap(lambda count: st.permutations(range(count)))


@given(SITES, st.integers(0, 50), st.integers(0, 50), st.integers(-9, 9))
def test_every_row_is_shared_to_one_cell_and_parts_are_even(sites: list[int], first: int, rows: int, turn: int) -> None:
    parts = Cells(0, 0, tuple(sites)).parts_of(slice(first, first + rows), turn)
    shared = [row for part in parts for row in range(part.start, part.stop)]
    assert sorted(shared) == list(range(first, first + rows))
    lengths = [part.stop - part.start for part in parts]
    assert len(lengths) == len(sites)
    assert max(lengths) - min(lengths) <= 1


def test_single_rows_go_to_all_cells_by_turns() -> None:
    cells = Cells(0, 0, (0, 1, 2))
    got = [[part.stop - part.start for part in cells.parts_of(slice(0, 1), turn)].index(1) for turn in range(6)]
    assert sorted(got) == [0, 0, 1, 1, 2, 2]


@given(SITES, st.integers(1, 9))
def test_cells_move_to_sites_that_there_are(places: list[int], sites: int) -> None:
    cells = Cells(7, 1, tuple(places))
    if too_wide([cells], sites):
        assert len(places) > sites
        return
    moved = cells.within(sites)
    assert len(set(moved.sites)) == len(places)
    assert max(moved.sites) < sites
    assert moved.like(cells)
    assert all(new == old for old, new in zip(places, moved.sites, strict=True) if old < sites)


@given(st.lists(HASHES, unique=True, max_size=5), st.integers(2, 6))
def test_what_is_spread_is_in_its_cells_and_nowhere_else(hashes: list[int], sites: int) -> None:
    directory = uniform(sites, 4)
    for hash_ in hashes:
        directory = directory.spread_over(Cells(hash_, 0, (sites - 1, 0)))
    assert [cells.hash for cells in directory.spread] == sorted(hashes)
    inside = [part for _, part in directory.home_ranges()]
    assert sum(part.high - part.low for part in inside) == HASH_END - len(hashes)
    assert sorted(_points(remaining([EVERYTHING], inside))) == sorted(hashes)
    for site in range(sites):
        home = directory.ranges_of(site)
        assert all(a.high <= b.low for a, b in itertools.pairwise(home))
        assert set(directory.cells_of(site)) == ({point(h) for h in hashes} if site in (0, sites - 1) else set())
        assert set(directory.cells_of(site)) <= set(home)


def _points(ranges: list[HashRange]) -> list[int]:
    return [hash_ for part in ranges for hash_ in range(part.low, part.high)]


@given(HASHES)
def test_a_directory_with_cells_is_the_same_after_a_journey(hash_: int) -> None:
    directory = uniform(3).spread_over(Cells(hash_, 1, (2, 0))).gathering([hash_])
    assert msgspec.json.decode(msgspec.json.encode(directory), type=Directory) == directory
    assert pickle.loads(pickle.dumps(directory)) == directory
    assert directory.gathered([hash_]) == uniform(3)


def test_a_directory_that_knew_of_no_cells_can_be_read() -> None:
    old = msgspec.json.decode(msgspec.json.encode(uniform(3)), type=dict)
    del old["spread"]
    assert msgspec.json.decode(msgspec.json.encode(old), type=Directory) == uniform(3)
