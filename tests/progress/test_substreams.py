"""Substreams come, finish and are forgotten; the stream goes on from where it was."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.progress.idle import begun, floors
from penstock.progress.mark import BEGIN, END, FINISHED, Mark, Ordered, Seen, advance, at, stream_mark


def seen(substream: str, time: int, ordinal: int = 0) -> Seen:
    return Seen(substream, ordinal, time, time)


def test_a_finished_substream_does_not_hold_the_others_back() -> None:
    marks = advance(Ordered(), {"a": at(3), "b": at(9)}, [seen("a", 5)], finished=["a"])
    assert marks == {"b": at(9)}
    assert stream_mark(marks, ended=False) == at(9)


def test_a_stream_whose_only_substream_finished_is_where_that_came_to_and_not_at_its_end() -> None:
    marks = advance(Ordered(), {"a": at(3)}, [seen("a", 5)], finished=["a"])
    assert stream_mark(marks, ended=False) == at(5)
    assert stream_mark(marks, ended=True) == END


def test_of_substreams_that_finish_together_the_least_counts() -> None:
    parts = [seen("a", 5), seen("b", 8, 1)]
    assert stream_mark(advance(Ordered(), {}, parts, finished=["a", "b"]), ended=False) == at(5)


def test_a_substream_that_finishes_without_a_word_says_nothing() -> None:
    parts = [seen("a", 5), Seen("empty", 1, None, None)]
    assert stream_mark(advance(Ordered(), {}, parts, finished=["a", "empty"]), ended=False) == at(5)
    assert advance(Ordered(), {}, [], finished=["never shown"]) == {}


def test_the_next_substream_takes_over_and_the_finished_ones_are_forgotten() -> None:
    marks = advance(Ordered(), {}, [seen("a", 5)], finished=["a"])
    assert advance(Ordered(), marks, []) == marks
    marks = advance(Ordered(), marks, [seen("b", 7)])
    assert marks == {"b": at(7)}
    assert advance(Ordered(), marks, [], finished=["b"]) == {FINISHED: at(7)}


def test_a_substream_that_appears_behind_the_floor_does_not_take_the_stream_back() -> None:
    marks = advance(Ordered(), {}, [seen("a", 50)], finished=["a"])
    (floor,) = floors(begun(1, 0.0), [(marks, BEGIN, False)], [None], 0.0)
    marks = advance(Ordered(), marks, [seen("b", 20)])
    assert marks == {"b": at(20)}
    assert stream_mark(marks, False, floor) == at(50)
    assert stream_mark(advance(Ordered(), marks, [seen("b", 60)]), False, floor) == at(60)


def test_three_files_of_different_speed() -> None:
    marks: dict[str, Mark] = {}
    found = []
    steps = [(10, 100, 1), (20, 200, 2), (30, 300, 3), (40, None, 4), (None, None, 500)]
    finished = [[], [], ["fast"], ["middle"], []]
    for times, ended in zip(steps, finished, strict=True):
        named = zip(("middle", "fast", "slow"), times, strict=True)
        marks = advance(Ordered(), marks, [seen(n, t, i) for i, (n, t) in enumerate(named) if t is not None], ended)
        found.append(stream_mark(marks, ended=False))
    assert found == [at(1), at(2), at(3), at(4), at(500)]
    assert set(marks) == {"slow"}


EPOCHS = st.lists(
    st.tuples(
        st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 50)), max_size=4), st.sets(st.sampled_from("abc"))
    ),
    max_size=8,
)


@given(EPOCHS)
def test_the_stream_never_goes_back_and_is_no_further_than_any_open_substream(
    epochs: list[tuple[list[tuple[str, int]], set[str]]],
) -> None:
    marks, floor, generation = {}, BEGIN, dict.fromkeys("abc", 0)
    for shown, finished in epochs:
        named = [(f"{name}{generation[name]}", time) for name, time in shown]
        ending = [f"{name}{generation[name]}" for name in finished]
        marks = advance(Ordered(), marks, [seen(s, t, n) for n, (s, t) in enumerate(named)], ending)
        assert not set(ending) & set(marks)
        reached = stream_mark(marks, False, floor)
        assert reached >= floor
        assert all(reached <= max(floor, mark) for mark in marks.values())
        (floor,) = floors(begun(1, 0.0), [(marks, floor, False)], [None], 1e9)
        assert floor == reached
        generation.update({name: generation[name] + 1 for name in finished})
