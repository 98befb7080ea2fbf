"""When closings are put off, for how long, and that it is spread evenly."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.balance.flushing import BLOCK_BITS, Closing, Flushing, IdleBudget, at_least, pressing
from penstock.state.directory import Group, uniform
from penstock.state.hash_ranges import EVERYTHING, HASH_END, HashRange, common, remaining

PERIOD = 1_000
PUTTING_OFF = st.builds(Flushing, st.sampled_from(["slow", "lazy"]), st.integers(1, 5))
TIMES = st.integers(-(10**6), 10**6)
HOMES = st.sampled_from([[EVERYTHING], *([*uniform(3, 5).ranges_of(site)] for site in range(3))]) | st.just(
    [HashRange(10, 17), HashRange(20, 21), HashRange(1000, 5000)]
)


def width(ranges: Iterable[HashRange]) -> int:
    return sum(part.high - part.low for part in ranges)


def pressed(flushing: Flushing, home: list[HashRange], ended: int, upto: int) -> list[HashRange]:
    return sorted(pressing(flushing, [Closing(part, ended) for part in home], upto, PERIOD))


@given(PUTTING_OFF, HOMES, TIMES, st.integers(0, 10 * PERIOD))
def test_nothing_is_put_off_by_more_than_max_delay_windows(
    flushing: Flushing, home: list[HashRange], ended: int, more: int
) -> None:
    assert pressed(flushing, home, ended, ended + flushing.max_delay * PERIOD + more) == home


@given(PUTTING_OFF, HOMES, TIMES, st.lists(st.integers(0, 6 * PERIOD), min_size=2, max_size=8).map(sorted))
def test_what_is_pressing_stays_pressing(
    flushing: Flushing, home: list[HashRange], ended: int, later: list[int]
) -> None:
    for sooner, then in pairwise(pressed(flushing, home, ended, ended + more) for more in later):
        assert not remaining(sooner, then)
        assert not remaining(then, home)


@given(st.integers(1, 5), TIMES, st.integers(0, 5 * PERIOD))
def test_slow_closings_are_spread_evenly(max_delay: int, ended: int, more: int) -> None:
    cycle = max_delay * PERIOD
    done = width(pressed(Flushing("slow", max_delay), [EVERYTHING], ended, ended + more))
    assert abs(done * cycle - min(more, cycle) * HASH_END) <= cycle


@given(st.integers(0, 4).flatmap(lambda depth: st.tuples(st.just(depth), st.integers(0, 2**depth - 1))), TIMES, TIMES)
def test_every_group_has_its_turn_evenly(group: tuple[int, int], ended: int, more: int) -> None:
    """However its site is made up: a sixteenth of the hashes is never more than two of its eight blocks off."""
    (depth, prefix), more = group, more % PERIOD
    home = [Group(prefix, depth).range]
    done = width(pressed(Flushing("slow"), home, ended, ended + more)) / width(home)
    assert abs(done - more / PERIOD) <= 2 * 2**depth / 2**BLOCK_BITS


@given(PUTTING_OFF, HOMES, TIMES, st.integers(0, 10 * PERIOD))
def test_where_a_hash_lives_does_not_say_when_it_is_closed(
    flushing: Flushing, home: list[HashRange], ended: int, more: int
) -> None:
    everywhere = pressed(flushing, [EVERYTHING], ended, ended + more)
    here = pressed(flushing, home, ended, ended + more)
    assert here == common(home, everywhere)


@given(st.integers(1, 5), HOMES, TIMES, st.integers(0, PERIOD))
def test_lazy_closings_wait_and_are_spread_over_the_last_window(
    max_delay: int, home: list[HashRange], ended: int, more: int
) -> None:
    flushing, waited = Flushing("lazy", max_delay), ended + (max_delay - 1) * PERIOD
    assert pressed(flushing, home, ended, waited) == []
    assert pressed(flushing, home, ended, waited + more) == pressed(Flushing("slow", 1), home, waited, waited + more)


def test_each_range_is_pressed_by_its_own_window() -> None:
    """The first half has a window that ended at 1000, the other one that ended at 0."""
    half = HASH_END // 2
    home = [HashRange(0, half), HashRange(half, HASH_END)]
    closings = [Closing(home[0], 1000), Closing(home[1], 0)]

    def parts(flushing: Flushing, upto: int) -> list[float]:
        found = sorted(pressing(flushing, closings, upto, PERIOD))
        return [round(width(common([one], found)) / half, 2) for one in home]

    assert parts(Flushing("slow", 1), 1500) == [0.5, 1.0]
    assert parts(Flushing("slow", 2), 1500) == [0.5 / 2, 1.5 / 2]
    assert parts(Flushing("lazy", 2), 1500) == [0.0, 0.5]


@given(HOMES, st.integers(1, 64), st.data())
def test_a_share_is_done_in_any_case(home: list[HashRange], share: int, data: st.DataObject) -> None:
    due = data.draw(st.lists(st.sampled_from(home), unique=True))
    now = [HashRange(part.low, part.low + 1) for part in due[:1]]
    found = at_least(now, due, home, share)
    assert found[: len(now)] == now
    assert width(found) == min(width(due), max(width(now), width(home) // share, 1))
    assert not remaining(found, due)
    assert all(not common([one], [other]) for n, one in enumerate(found) for other in found[:n])


def test_what_is_pressing_is_not_cut_to_a_share() -> None:
    assert at_least([EVERYTHING], [EVERYTHING], [EVERYTHING], 64) == [EVERYTHING]


def test_eager_puts_nothing_off() -> None:
    assert not Flushing().puts_off
    assert Flushing("slow").puts_off
    assert Flushing("lazy").puts_off


def test_leisure_is_what_work_leaves_of_an_epoch() -> None:
    before = IdleBudget(0.5)
    assert before.seconds(0) == 0.0  # nothing is known yet
    assert before.after(0.3, 0.1).seconds(0) == pytest.approx(0.3)
    assert before.after(0.3, 0.1).seconds(1) == 0.0
    assert before.after(0.9, 0.1).seconds(0) == 0.0
