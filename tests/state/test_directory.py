from __future__ import annotations

import itertools
import pickle

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.state.directory import Directory, Group, uniform
from penstock.state.hash_ranges import EVERYTHING, HASH_END, HashRange

SITES = st.integers(1, 20)


@given(SITES, st.integers(1, 20), SITES)
def test_every_hash_has_one_home_before_and_after_rescaling(sites: int, per_site: int, later: int) -> None:
    for directory in (uniform(sites, per_site), uniform(sites, per_site).scaled(later)):
        ranges = [part for _, part in directory.home_ranges()]
        assert (ranges[0].low, ranges[-1].high) == (0, HASH_END)
        assert all(a.high == b.low for a, b in itertools.pairwise(ranges))
        assert sorted(set(directory.homes)) == list(range(directory.sites))


@given(SITES)
def test_rescaling_shares_groups_evenly(sites: int) -> None:
    homes = uniform(4, 16).scaled(sites).homes
    counts = [homes.count(site) for site in range(sites)]
    assert max(counts) - min(counts) <= 1


@given(SITES, SITES)
def test_scaling_moves_no_more_groups_than_it_must(before: int, after: int) -> None:
    """Whatever is above the larger share of a site has to go, and nothing else of those that stay."""
    directory = uniform(before, 16)
    scaled = directory.scaled(after)
    if len(scaled.groups) > len(directory.groups):
        return
    moved = sum(old != new for old, new in zip(directory.homes, scaled.homes, strict=True))
    counts = [directory.homes.count(site) for site in range(max(before, after))]
    least, larger = divmod(len(directory.groups), after)
    shares = sorted(counts[:after], reverse=True)
    kept = sum(min(count, least + (rank < larger)) for rank, count in enumerate(shares))
    assert moved == len(directory.groups) - kept


@given(st.data())
def test_any_changes_leave_a_directory(data: st.DataObject) -> None:
    directory = uniform(data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4)))
    for _ in range(data.draw(st.integers(0, 12))):
        group = data.draw(st.sampled_from(directory.groups))
        match data.draw(st.sampled_from(["move", "split", "merge", "scale"])):
            case "move":
                directory = directory.moved(group, data.draw(st.integers(0, directory.sites - 1)))
                assert len(directory.groups) == len(set(directory.groups))
            case "split":
                home = directory.homes[directory.place(group)]
                directory = directory.split(group)
                assert [directory.homes[directory.place(half)] for half in group.halves] == [home, home]
            case "merge" if group.depth and all(half in directory.groups for half in group.parent.halves):
                directory = directory.merged(group.parent)
                assert group.parent in directory.groups
            case "scale":
                directory = directory.scaled(data.draw(st.integers(1, 6)))
        ranges = [known.range for known in directory.groups]
        assert (ranges[0].low, ranges[-1].high) == (0, HASH_END)
        assert all(a.high == b.low for a, b in itertools.pairwise(ranges))
        assert len(directory.homes) == len(directory.groups)
        assert 0 <= min(directory.homes) <= max(directory.homes) < directory.sites


def test_only_a_group_of_the_directory_has_a_place() -> None:
    directory = uniform(2, 4)
    assert directory.place(Group(5, 3)) == 5
    for other in (Group(2, 2), Group(5, 4), Group(11, 4)):
        with pytest.raises(KeyError):
            directory.place(other)


def test_what_is_cached_does_not_travel_and_is_not_written() -> None:
    directory = uniform(2, 16)
    bare = pickle.dumps(directory), msgspec.json.encode(directory)
    directory.home_ranges()
    assert (pickle.dumps(directory), msgspec.json.encode(directory)) == bare
    assert pickle.loads(bare[0]) == msgspec.json.decode(bare[1], type=Directory) == directory


def test_a_group_is_the_range_of_its_prefix() -> None:
    assert Group(0b10, 2).range == HashRange(2**63, 3 * 2**62)
    assert Group(0, 0).range == EVERYTHING
    assert str(Group(2, 4)) == "0010"
    assert [Group.of_bits(str(group)) for group in (Group(2, 4), Group(0, 0))] == [Group(2, 4), Group(0, 0)]


@given(st.lists(st.integers(0, HASH_END - 1)), st.integers(0, HASH_END - 1), st.integers(1, HASH_END))
def test_the_rows_of_a_range_are_those_between_its_ends(hashes: list[int], low: int, width: int) -> None:
    part = HashRange(low, min(HASH_END, low + width))
    column = np.array(sorted(hashes), np.uint64)
    assert column[part.rows(column)].tolist() == [h for h in sorted(hashes) if part.low <= h < part.high]


@pytest.mark.parametrize(
    ("a", "b", "common"), [((0, 4), (2, 9), (2, 4)), ((0, 4), (4, 9), None), ((3, 4), (0, 9), (3, 4))]
)
def test_intersection(a: tuple[int, int], b: tuple[int, int], common: tuple[int, int] | None) -> None:
    assert HashRange(*a).intersect(HashRange(*b)) == (None if common is None else HashRange(*common))
