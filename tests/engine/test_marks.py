"""Marks over hash ranges behave like a mark per hash."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.progress.mark import BEGIN, END, at
from penstock.state.hash_ranges import HashRange
from penstock.state.model import RangeMark, least, moved_to, normal, restricted, starting_marks

SMALL = 16
BORDERS = st.tuples(st.integers(0, SMALL - 1), st.integers(1, SMALL)).filter(lambda p: p[0] < p[1])
WORK = st.lists(st.tuples(BORDERS, st.integers(0, 5)), max_size=12)


def by_hash(marks: tuple[RangeMark, ...]) -> list[object]:
    return [next(m.marks for m in marks if m.range.low <= h < m.range.high) for h in range(SMALL)]


@given(WORK)
def test_moving_ranges_moves_exactly_their_hashes(work: list[tuple[tuple[int, int], int]]) -> None:
    marks, model = starting_marks([HashRange(0, SMALL)], 1), [(BEGIN,)] * SMALL
    for (low, high), time in work:
        marks = moved_to(marks, [HashRange(low, high)], (at(time),))
        model[low:high] = [(at(time),)] * (high - low)
    assert by_hash(marks) == model
    assert marks == normal(marks)
    assert least(marks, 1) == min(model)


def test_neighbours_of_equal_mark_are_one_range() -> None:
    halves = (RangeMark(HashRange(8, 16), (at(3),)), RangeMark(HashRange(0, 8), (at(3),)))
    assert normal(halves) == (RangeMark(HashRange(0, 16), (at(3),)),)


def test_nothing_at_all_has_come_to_the_end() -> None:
    assert least((), 2) == (END, END)


@given(WORK, BORDERS)
def test_a_new_home_is_told_the_marks_of_its_ranges(
    work: list[tuple[tuple[int, int], int]], part: tuple[int, int]
) -> None:
    marks = starting_marks([HashRange(0, SMALL)], 1)
    for (low, high), time in work:
        marks = moved_to(marks, [HashRange(low, high)], (at(time),))
    told = restricted(marks, [HashRange(*part)])
    assert [m.marks for h in range(*part) for m in told if m.range.low <= h < m.range.high] == by_hash(marks)[
        slice(*part)
    ]


def test_what_lies_between_the_groups_of_a_site_does_not_part_its_marks() -> None:
    scattered = [HashRange(n, n + 1) for n in range(0, SMALL, 2)]
    assert starting_marks(scattered, 1) == (RangeMark(HashRange(0, SMALL - 1), (BEGIN,)),)
