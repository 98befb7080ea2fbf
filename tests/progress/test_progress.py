from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.progress.mark import (
    BEGIN,
    END,
    MAX_TIME,
    MIN_TIME,
    Mark,
    Ordered,
    Seen,
    Slack,
    advance,
    at,
    low_water_mark,
    stream_mark,
)

TIMES = st.integers(MIN_TIME, MAX_TIME)


@given(TIMES, st.integers(-(2**70), 2**70))
def test_arithmetic_saturates_and_the_end_stays_the_end(time: int, by: int) -> None:
    assert MIN_TIME <= at(time).shift(by).at <= MAX_TIME
    assert END.shift(by) == END
    assert at(time) < END


def test_the_end_is_not_the_largest_time() -> None:
    assert at(MAX_TIME) < END
    assert not at(MAX_TIME).has_reached(MAX_TIME + 1)
    assert END.has_reached(MAX_TIME + 1)
    assert at(5).has_reached(5)
    assert not at(5).has_reached(6)
    assert at(6).is_beyond(5)
    assert END.is_beyond(MAX_TIME)
    assert not at(5).is_beyond(5)


def seen(substream: str, ordinal: int, largest: int, last: int) -> Seen:
    return Seen(substream, ordinal, largest, last)


def test_slack_follows_the_largest_time_and_order_the_last_row() -> None:
    parts = [seen("a", 1, 30, 10), seen("a", 0, 50, 40)]
    assert advance(Slack(5), {}, parts) == {"a": at(45)}
    assert advance(Ordered(), {}, parts) == {"a": at(10)}


@given(st.lists(st.lists(st.tuples(st.sampled_from("ab"), TIMES), max_size=4), max_size=6), st.integers(0, 2**64))
def test_marks_never_go_backwards(epochs: list[list[tuple[str, int]]], span: int) -> None:
    for rule in (Slack(span), Ordered()):
        marks: dict[str, Mark] = {}
        for epoch in epochs:
            after = advance(rule, marks, [seen(s, n, t, t) for n, (s, t) in enumerate(epoch)])
            assert all(after[name] >= mark for name, mark in marks.items())
            marks = after


def test_a_stream_is_as_far_as_its_slowest_substream() -> None:
    marks = advance(Ordered(), {"a": at(3), "b": at(9)}, [seen("a", 0, 5, 5)])
    assert stream_mark(marks, ended=False) == at(5)
    assert stream_mark(marks, ended=True) == END


def test_a_stream_that_has_shown_nothing_has_not_begun() -> None:
    assert stream_mark({}, ended=False) == BEGIN
    assert low_water_mark([]) == END
