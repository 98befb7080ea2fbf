"""Compaction keeps the number of runs small, and never mixes times so that expiry could not drop whole runs."""

from __future__ import annotations

from random import Random

import pytest

from penstock.state.hash_ranges import EVERYTHING, HASH_END, HashRange, point, remaining
from penstock.state.runs import (
    FAN,
    FRAGMENTED,
    MOST_SLICES,
    SMALL_ROWS,
    MergeRange,
    RunFile,
    Slice,
    choose,
    is_fragmented,
    most_slices,
)

WINDOW = 60
PIECE_BYTES = 64 << 20
ROW = 8  # bytes


def piece(name: str, low: int, high: int, rows: int = 100, part: HashRange = EVERYTHING) -> Slice:
    return Slice(RunFile(name, 0, rows, rows * ROW, "", low, (low + high) // 2, high), part)


def rows_in(piece: Slice) -> int:
    """The rows of a slice whose run is spread evenly over the hashes that its name says."""
    whole = RANGES.get(piece.run.name, EVERYTHING)
    return piece.run.rows * (piece.range.high - piece.range.low) // (whole.high - whole.low)


RANGES: dict[str, HashRange] = {}  # of runs that do not cover all hashes


def chosen_of(slices: list[Slice], alive_from: int, window: int = WINDOW) -> list[MergeRange]:
    return choose({s: rows_in(s) for s in slices}, alive_from, window, PIECE_BYTES)


def compacted(slices: list[Slice], merge: MergeRange, name: str, alive_from: int) -> list[Slice]:
    """The slices after a merge, in runs that are not larger than a piece."""
    left = [Slice(s.run, rest) for s in merge.slices for rest in remaining([s.range], [merge.range])]
    parts = [s for old in merge.slices if (s := _inside(old, merge.range)) is not None]
    low = max(alive_from, min(s.run.min_time for s in parts))
    high, rows = max(s.run.max_time for s in parts), sum(map(rows_in, parts))
    count = max(1, -(-rows * ROW // PIECE_BYTES))
    width = (merge.range.high - merge.range.low) // count
    made = []
    for n in range(count):
        end = merge.range.high if n == count - 1 else merge.range.low + (n + 1) * width
        RANGES[f"{name}.{n}"] = part = HashRange(merge.range.low + n * width, end)
        made += [] if not rows else [piece(f"{name}.{n}", low, high, rows // count, part)]
    return [s for s in slices if s not in merge.slices] + [s for s in left if rows_in(s)] + made


def _inside(old: Slice, part: HashRange) -> Slice | None:
    both = old.range.intersect(part)
    return None if both is None else Slice(old.run, both)


def test_a_few_small_neighbours_become_one() -> None:
    neighbours = [piece(f"r{n}", n, n + 1) for n in range(FAN)]
    assert chosen_of(neighbours, 0) == [MergeRange(EVERYTHING, tuple(neighbours))]
    assert chosen_of(neighbours[:-1], 0) == []


def test_what_is_merged_spans_at_most_half_of_what_is_alive() -> None:
    far_apart = [piece(f"r{n}", 5 * n, 5 * n + 1) for n in range(4 * FAN)]
    merges = chosen_of(far_apart, 0)
    assert merges
    for merge in merges:
        group = merge.slices
        assert max(s.run.max_time for s in group) - min(s.run.min_time for s in group) <= 80 // 2


def test_a_run_under_half_alive_is_rewritten() -> None:
    old = piece("old", 0, 100)
    assert chosen_of([old], 60) == [MergeRange(EVERYTHING, (old,))]
    assert chosen_of([old], 40) == []


def test_broad_runs_are_merged_with_each_other() -> None:
    broad = [piece(f"r{n}", n, 1000 + n) for n in range(FAN)]
    assert chosen_of(broad, 0) == [MergeRange(EVERYTHING, tuple(broad))]


@pytest.mark.parametrize("disorder", [0, 10, 500])
def test_the_number_of_runs_stays_small_whatever_the_disorder(disorder: int) -> None:
    random, slices, most = Random(disorder), [], 0
    for epoch in range(600):
        now = 2 * epoch
        slices.append(piece(f"e{epoch}", now - disorder, now + 2, random.choice([10, 100, 5_000])))
        alive_from = now - disorder - WINDOW
        slices = [s for s in slices if s.run.max_time >= alive_from]
        for number, merge in enumerate(chosen_of(slices, alive_from)):
            slices = compacted(slices, merge, f"m{epoch}.{number}", alive_from)
        most = max(most, len(slices))
    assert most <= MOST_SLICES


def test_large_state_is_rewritten_seldom_and_searched_in_few_slices() -> None:
    """5 GB of rows that never expire, in epochs of 16 MB and at most 3 pieces rewritten in each."""
    slices: list[Slice] = []
    written = most = 0
    for epoch in range(320):
        slices.append(piece(f"e{epoch}", epoch, epoch + 1, (16 << 20) // ROW))
        written += 16 << 20
        for number in range(3):
            if not (merges := chosen_of(slices, 0, 10**6)):
                break
            part = _at_most(merges[0], PIECE_BYTES)
            written += sum(rows_in(s) for old in part.slices if (s := _inside(old, part.range)) is not None) * ROW
            slices = compacted(slices, part, f"m{epoch}.{number}", 0)
        most = max(most, most_slices(slices))
    assert sum(map(rows_in, slices)) * ROW == pytest.approx(320 << 24, rel=0.01)
    assert most <= 16
    assert written < 6 * (320 << 24)
    assert len(slices) < 3 * (320 << 24) / PIECE_BYTES


def _at_most(merge: MergeRange, size: int) -> MergeRange:
    """The first part of a merge that has about so many bytes."""
    whole = sum(rows_in(s) for old in merge.slices if (s := _inside(old, merge.range)) is not None) * ROW
    if whole <= size:
        return merge
    low = min(s.range.low for s in merge.slices if s.range.intersect(merge.range))
    low = max(low, merge.range.low)
    width = merge.range.high - low
    return MergeRange(HashRange(low, low + width * size // whole), merge.slices)


def test_ranges_are_looked_at_alone() -> None:
    """Four runs in the lower half, two in the upper half: only the lower half is merged."""
    lower, upper = HashRange(0, HASH_END // 2), HashRange(HASH_END // 2, HASH_END)
    below = [piece(f"l{n}", n, n + 1, part=lower) for n in range(FAN)]
    above = [piece(f"u{n}", n, n + 1, part=upper) for n in range(2)]
    RANGES.update({s.run.name: s.range for s in (*below, *above)})
    assert chosen_of([*below, *above], 0) == [MergeRange(lower, tuple(below))]
    assert most_slices([*below, *above]) == FAN


def test_slices_with_nearly_the_same_borders_are_merged_whole() -> None:
    """The first and the last hash of a run are chance."""
    slices = [piece(f"n{n}", n, n + 1, part=HashRange(1000 * n, HASH_END - 1000 * (n + 1))) for n in range(FAN)]
    RANGES.update({s.run.name: s.range for s in slices})
    (merge,) = chosen_of(slices, 0)
    assert all(not remaining([s.range], [merge.range]) for s in slices)


def test_what_is_left_of_a_merge_is_merged_later() -> None:
    slices = [piece(f"r{n}", n, n + 1) for n in range(FAN)]
    (merge,) = chosen_of(slices, 0)
    rest = compacted(slices, MergeRange(HashRange(0, HASH_END // 4), merge.slices), "first", 0)
    (again,) = chosen_of(rest, 0)
    assert again.range == HashRange(HASH_END // 4, HASH_END)


def test_full_runs_of_one_hash_are_left_alone() -> None:
    """They could not be merged into fewer runs."""
    hot = [piece(f"h{n}", n, n + 1, PIECE_BYTES // ROW, point(7)) for n in range(30)]
    RANGES.update({s.run.name: s.range for s in hot})
    assert chosen_of(hot, 0) == []
    small = [piece(f"s{n}", n, n + 1, 100, point(7)) for n in range(FAN)]
    RANGES.update({s.run.name: s.range for s in small})
    assert chosen_of([*hot, *small], 0) == [MergeRange(point(7), tuple(small))]


def test_narrow_slices_are_merged_beside_wide_ones() -> None:
    """As those of a small group that has moved here, or of a hot key."""
    wide = [piece(f"w{n}", n, n + 1) for n in range(2)]
    narrow = [piece(f"g{n}", n, n + 1, part=HashRange(5 << 40, 6 << 40)) for n in range(FAN)]
    points = [piece(f"p{n}", n, n + 1, part=point(9 << 40)) for n in range(FAN)]
    RANGES.update({s.run.name: s.range for s in (*narrow, *points)})
    found = chosen_of([*wide, *narrow, *points], 0)
    assert sorted(found, key=lambda m: m.range) == [
        MergeRange(HashRange(5 << 40, 6 << 40), tuple(narrow)),
        MergeRange(point(9 << 40), tuple(points)),
    ]


def test_no_row_is_chosen_twice() -> None:
    random = Random(7)
    slices = []
    for n in range(60):
        low, start = random.randrange(HASH_END // 2), random.randrange(200)
        part = HashRange(low, low + random.randrange(1, HASH_END // 2))
        slices.append(piece(f"r{n}", start, start + random.randrange(80), random.randrange(1, 9000), part))
        RANGES[f"r{n}"] = part
    merges = chosen_of(slices, 50)
    assert len(merges) > 5
    taken = [(s.run.name, both) for merge in merges for s in merge.slices if (both := s.range.intersect(merge.range))]
    for n, (name, part) in enumerate(taken):
        assert not any(name == other and part.intersect(there) for other, there in taken[n + 1 :])


def side_by_side(name: str, count: int, low: int, high: int, rows: int) -> list[Slice]:
    """Return what is left of a run if every other of its groups has moved away."""
    width = HASH_END // (2 * count)
    parts = [HashRange(2 * n * width, (2 * n + 1) * width) for n in range(count)]
    return [piece(name, low, high, 2 * rows * count, part) for part in parts]


def test_small_slices_side_by_side_become_one() -> None:
    """A lookup searches all of them, although no two have rows at one hash."""
    fragments = side_by_side("r", FRAGMENTED, 0, 1, SMALL_ROWS - 1)
    (merge,) = chosen_of(fragments, 0)
    assert set(merge.slices) == set(fragments)
    assert all(merge.range.intersect(s.range) == s.range for s in fragments)
    assert chosen_of(fragments[:-1], 0) == []
    assert chosen_of(side_by_side("r", FRAGMENTED, 0, 1, SMALL_ROWS), 0) == []


def test_slices_as_large_as_what_merges_write_stay_side_by_side() -> None:
    """With little memory a piece has few rows: merged, they would be as many slices again, in every epoch."""
    fragments = side_by_side("r", 8 * FRAGMENTED, 0, 1, SMALL_ROWS // 2)
    rows_of = {s: rows_in(s) for s in fragments}
    assert choose(rows_of, 0, WINDOW, SMALL_ROWS // 2 * ROW) == []
    assert len(choose(rows_of, 0, WINDOW, 8 * SMALL_ROWS * ROW)) == 1


def test_fragments_of_times_that_expire_apart_stay_apart() -> None:
    old, new = side_by_side("old", 8, 0, 10, 100), side_by_side("new", 8, 50, 60, 100)
    assert {frozenset(merge.slices) for merge in chosen_of([*old, *new], 0)} == {frozenset(old), frozenset(new)}


def test_few_rows_above_each_other_are_not_fragmented() -> None:
    above = [piece(f"r{n}", n, n + 1) for n in range(FAN - 1)]
    assert not is_fragmented(above, most_slices(above))
    assert chosen_of(above, 0) == []
