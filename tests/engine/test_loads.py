"""What a site counts group by group is what one finds row by row."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.task.site.counting import Counted, KeyCounts, SiteBorders, borders_of
from penstock.engine.task.site.loads import MOST_HEAVY_KEYS, heavy_keys
from penstock.state.directory import Directory, Group, uniform
from penstock.state.hash_ranges import EVERYTHING, Hashes
from penstock.state.runs import RunFile, Slice

CELLS, DEPTH = 32, 5
HOMES = st.lists(st.integers(0, 2), min_size=CELLS, max_size=CELLS)
ROWS = st.lists(st.tuples(st.integers(0, CELLS - 1), st.integers(0, 2)), max_size=60)


def directory_of(homes: list[int]) -> Directory:
    return Directory(3, uniform(1, CELLS).groups, tuple(homes))


def column(rows: list[tuple[int, int]], homes: list[int], site: int) -> np.ndarray:
    """The hashes of the rows that are a site's own, each of some hash in its cell."""
    return np.asarray(sorted(Group(cell, DEPTH).low + n for cell, n in rows if homes[cell] == site), np.uint64)


@given(HOMES, st.lists(ROWS, max_size=3))
def test_rows_and_heaviest_keys_by_group(homes: list[int], tables: list[list[tuple[int, int]]]) -> None:
    for site in range(3):
        columns = [column(rows, homes, site) for rows in tables]
        cells = [cell for cell in range(CELLS) if homes[cell] == site]
        counted = Counter(int(h) >> (64 - DEPTH) for hashes in columns for h in hashes)
        heaviest: Counter[int] = Counter()
        for hashes in columns:
            for found, count in Counter(hashes.tolist()).items():
                cell = found >> (64 - DEPTH)
                heaviest[cell] = max(heaviest[cell], count)
        borders = borders_of(directory_of(homes), site)
        rows, most = borders.tallied(map(KeyCounts.of, columns))
        assert rows.tolist() == borders.counted(columns).tolist() == [counted[cell] for cell in cells]
        assert most.tolist() == [heaviest[cell] for cell in cells]


def test_the_longest_column_tells_what_one_key_of_a_group_has() -> None:
    zero, one, two = (Group(cell, DEPTH).low for cell in range(3))
    short = np.asarray([zero, zero, two], np.uint64)
    long = np.asarray([zero, zero + 1, zero + 1, zero + 1, one], np.uint64)
    borders = borders_of(directory_of([0] * CELLS), 0)
    rows, most = borders.estimated([short, long])
    assert rows[:4].tolist() == [6, 1, 1, 0]
    assert most[:4].tolist() == [3, 1, 1, 0]
    assert [part.sum() for part in borders.estimated([])] == [0, 0]


@given(HOMES, st.lists(ROWS, min_size=1, max_size=3))
def test_the_heaviest_keys_of_ports_with_all_that_they_have(
    homes: list[int], tables: list[list[tuple[int, int]]]
) -> None:
    columns = [column(rows, homes, 0) for rows in tables]
    every = [Counter(hashes.tolist()) for hashes in columns]
    loads = heavy_keys([[KeyCounts.of(hashes)] for hashes in columns])
    assert {load.hash: load.rows for load in loads}.items() <= {
        hash_: tuple(counted[hash_] for counted in every) for counted in every for hash_ in counted
    }.items()
    told = {load.hash for load in loads}
    for counted in every:
        least_reported = sorted(counted.values(), reverse=True)[:MOST_HEAVY_KEYS][-1:]
        assert {hash_ for hash_, rows in counted.items() if [rows] > least_reported} <= told


@given(st.integers(0, 2**32 - 1), st.integers(1, 2000), st.sampled_from([1, 3, 1000]))
def test_the_heaviest_of_many_keys(seed: int, keys: int, most_rows: int) -> None:
    random = np.random.default_rng(seed)
    rows = random.integers(1, most_rows + 1, keys)
    counts = KeyCounts.of(np.repeat(np.arange(keys, dtype=np.uint64), rows))
    found = counts.heaviest(MOST_HEAVY_KEYS)
    assert len(set(found.tolist())) == min(MOST_HEAVY_KEYS, keys)
    assert sorted(rows[found.astype(int)]) == sorted(rows)[-MOST_HEAVY_KEYS:]


def test_slices_are_counted_once_until_the_borders_change() -> None:
    pieces = [Slice(RunFile(name, 0, 3, 24, "", 0, 0, 0), EVERYTHING) for name in "ab"]
    read: list[str] = []

    def rows_of(piece: Slice) -> Hashes:
        read.append(piece.run.name)
        return np.asarray([0, 1, Group(1, 1).low], np.uint64)

    known, two = Counted(), uniform(1, 2)
    assert [c.tolist() for c in known.of(SiteBorders.of(two, 0), pieces, rows_of).values()] == [[2, 1], [2, 1]]
    known.of(SiteBorders.of(uniform(1, 2), 0), pieces[1:], rows_of)
    assert read == ["a", "b"]
    three = two.split(Group(0, 1))
    assert [c.tolist() for c in known.of(SiteBorders.of(three, 0), pieces[1:], rows_of).values()] == [[2, 0, 1]]
    assert read == ["a", "b", "b"]
