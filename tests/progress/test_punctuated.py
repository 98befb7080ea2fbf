"""Punctuation that comes as rows: the furthest of them counts, wherever they stand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.expr.tree import Column
from penstock.progress.mark import (
    BEGIN,
    MAX_TIME,
    MIN_TIME,
    Mark,
    Ordered,
    Punctuated,
    Seen,
    Slack,
    advance,
    at,
    stream_mark,
)

RULE = Punctuated(Column("is_mark"))
TIMES = st.integers(MIN_TIME, MAX_TIME)


def seen(punctuation: int | None, *, ordinal: int = 0, largest: int = 10**9, substream: str = "a") -> Seen:
    return Seen(substream, ordinal, largest, largest, punctuation)


def test_rows_that_are_no_punctuation_say_nothing() -> None:
    assert advance(RULE, {}, [seen(None)]) == {"a": BEGIN}
    assert advance(RULE, {"a": at(7)}, [seen(None)]) == {"a": at(7)}


def test_the_furthest_punctuation_of_an_epoch_counts() -> None:
    assert advance(RULE, {}, [seen(5, ordinal=1), seen(9, ordinal=0), seen(None, ordinal=2)]) == {"a": at(9)}


def test_punctuation_out_of_order_never_takes_a_mark_back() -> None:
    assert advance(RULE, {"a": at(20)}, [seen(5)]) == {"a": at(20)}


def test_punctuation_at_the_limits_of_the_type() -> None:
    assert advance(RULE, {}, [seen(MIN_TIME)]) == {"a": BEGIN}
    marks = advance(RULE, {}, [seen(MAX_TIME)])
    assert marks == {"a": at(MAX_TIME)}
    assert not stream_mark(marks, ended=False).ended


def test_a_split_without_rows_begins_a_substream_and_says_no_more() -> None:
    nothing = Seen("b", 1, None, None)
    for rule in (RULE, Ordered(), Slack(3)):
        assert advance(rule, {"b": at(4)}, [nothing]) == {"b": at(4)}
        assert advance(rule, {}, [nothing]) == {"b": BEGIN}
    assert advance(Ordered(), {}, [Seen("b", 0, 8, 6), nothing]) == {"b": at(6)}
    assert advance(Slack(3), {}, [Seen("b", 0, 8, 6), nothing]) == {"b": at(5)}


@given(st.lists(st.lists(st.one_of(st.none(), TIMES), max_size=4), max_size=6))
def test_the_mark_is_the_furthest_punctuation_so_far(epochs: list[list[int | None]]) -> None:
    marks: dict[str, Mark] = {}
    so_far = [MIN_TIME]
    for epoch in epochs:
        marks = advance(RULE, marks, [seen(time, ordinal=n) for n, time in enumerate(epoch)])
        so_far += [time for time in epoch if time is not None]
        assert stream_mark(marks, ended=False) == at(max(so_far))
