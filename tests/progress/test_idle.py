"""Sources that are idle, finished, stalled or resumed, by a clock that the test holds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.progress.idle import Activity, SourceMarks, active_after, begun, floors, lull_mark
from penstock.progress.mark import BEGIN, END, Mark, Ordered, Seen, advance, at, stream_mark

TEN = 10.0


def one(**marks: int) -> SourceMarks:
    return {name: at(time) for name, time in marks.items()}, BEGIN, False


def active(*moments: tuple[float, str], began: float = 0.0) -> Activity:
    activity = begun(1, began)
    for now, name in moments:
        activity = active_after(activity, [{name}], now)
    return activity


def test_a_substream_is_idle_when_its_time_is_up_and_not_before() -> None:
    activity = active((0.0, "a"), (9.0, "b"))
    assert floors(activity, [one(a=3, b=8)], [TEN], 9.9) == (at(3),)
    assert floors(activity, [one(a=3, b=8)], [TEN], 10.0) == (at(8),)


def test_a_source_without_a_time_is_waited_for_for_ever() -> None:
    assert floors(active((1e9, "b")), [one(a=3, b=8)], [None], 1e9) == (at(3),)


def test_where_all_substreams_are_idle_the_largest_mark_counts() -> None:
    assert floors(active((0.0, "a"), (0.0, "b")), [one(a=3, b=8)], [TEN], 9.9) == (at(3),)
    assert floors(active((0.0, "a"), (0.0, "b")), [one(a=3, b=8)], [TEN], 10.0) == (at(8),)


def test_a_substream_that_resumes_is_in_the_minimum_again_above_the_floor() -> None:
    activity = active((0.0, "a"), (9.0, "b"))
    (floor,) = floors(activity, [one(a=3, b=8)], [TEN], 12.0)
    marks = advance(Ordered(), {"a": at(3), "b": at(8)}, [Seen("a", 0, 5, 5), Seen("b", 1, 30, 30)])
    assert stream_mark(marks, False, floor) == at(8)
    activity = active_after(activity, [{"a", "b"}], 12.0)
    (floor,) = floors(activity, [(marks, floor, False)], [TEN], 13.0)
    assert floor == at(8)
    marks = advance(Ordered(), marks, [Seen("a", 0, 20, 20)])
    assert stream_mark(marks, False, floor) == at(20)


def test_an_idle_source_follows_the_others() -> None:
    activity = active_after(begun(3, 0.0), [(), {"x"}, {"y"}], 9.0)
    sources = [one(a=3), one(x=40), one(y=30)]
    assert floors(activity, sources, [TEN] * 3, 9.5) == (at(3), at(40), at(30))
    assert floors(activity, sources, [TEN] * 3, 10.0) == (at(30), at(40), at(30))


def test_a_source_that_never_showed_anything_can_be_idle_too() -> None:
    activity = active_after(begun(2, 0.0), [(), {"x"}], 9.0)
    sources: list[SourceMarks] = [({}, BEGIN, False), one(x=40)]
    assert floors(activity, sources, [TEN, None], 9.0) == (BEGIN, at(40))
    assert floors(activity, sources, [TEN, None], 10.0) == (at(40), at(40))


def test_a_stalled_source_holds_back_those_that_follow() -> None:
    activity = active_after(begun(3, 0.0), [(), {"x"}, ()], 9.0)
    sources: list[SourceMarks] = [one(a=3), one(x=40), ({}, BEGIN, False)]
    assert floors(activity, sources, [TEN, TEN, None], 15.0) == (at(3), at(40), BEGIN)


def test_a_source_that_has_ended_counts_by_its_last_mark_where_the_others_are_idle() -> None:
    activity = active_after(begun(3, 0.0), [(), {"x"}, {"y"}], 9.0)
    sources: list[SourceMarks] = [one(a=3), ({"x": at(40)}, at(40), True), one(y=7)]
    assert floors(activity, sources, [TEN] * 3, 12.0) == (at(7), at(40), at(7))
    assert floors(activity, sources, [TEN] * 3, 19.0) == (at(40), at(40), at(40))


def test_a_source_that_has_ended_stays_as_it_is() -> None:
    activity = active((9.0, "b"))
    assert floors(activity, [({"a": at(3), "b": at(8)}, at(1), True)], [TEN], 12.0) == (at(1),)


def test_where_all_are_idle_what_has_arrived_is_complete_up_to_the_largest_mark() -> None:
    sources = [one(a=3), one(x=40), one(y=30)]
    assert floors(begun(3, 0.0), sources, [TEN] * 3, 99.0) == (at(40),) * 3
    assert floors(begun(3, 0.0), sources, [TEN, TEN, None], 99.0) == (at(30), at(40), at(30))


def test_all_idle_is_said_of_the_sources_of_one_clock() -> None:
    sources = [one(a=3), one(x=40), one(y=9), one(z=1000)]
    clocks = ["BIGINT", "TIMESTAMP", "BIGINT", "TIMESTAMP"]
    assert floors(begun(4, 0.0), sources, [TEN, TEN, TEN, None], 99.0, clocks) == (at(9), at(1000), at(9), at(1000))


def test_system_time_carries_an_idle_source_on_and_those_that_follow_it() -> None:
    activity = active_after(begun(3, 0.0), [(), (), {"y"}], 95.0)
    sources, lulls = [one(a=3), one(x=40), one(y=50)], {0: at(70)}
    assert floors(activity, sources, [TEN] * 3, 99.0, (), lulls) == (at(70), at(50), at(50))
    assert floors(activity, sources, [TEN] * 3, 105.0, (), lulls) == (at(70), at(70), at(70))
    assert floors(activity, sources, [200.0, TEN, TEN], 105.0, (), lulls) == (at(3), at(40), at(50))


def test_a_lull_goes_on_from_where_the_last_row_left_the_mark() -> None:
    """A row at its own time, ten seconds ago, with a slack of two: the mark is where it was; then it moves by steps."""
    assert lull_mark(110_000_000, 10_000_000, 2_000_000) == at(98_000_000)
    assert lull_mark(110_999_999, 10_000_000, 2_000_000) == at(98_000_000)
    assert lull_mark(111_000_000, 10_000_000, 2_000_000) == at(99_000_000)
    assert lull_mark(0, 1, 0) == at(-1)


def test_sources_of_different_clocks_do_not_follow_each_other() -> None:
    activity = active_after(begun(2, 0.0), [(), {"x"}], 99.0)
    sources = [one(a=3), one(x=40)]
    assert floors(activity, sources, [TEN, TEN], 99.0, ["TIMESTAMP", "BIGINT"]) == (at(3), at(40))
    assert floors(activity, sources, [TEN, TEN], 99.0, ["BIGINT", "BIGINT"]) == (at(40), at(40))


def test_a_source_whose_own_substream_is_idle_leads_by_its_active_ones() -> None:
    activity = active_after(begun(2, 0.0), [{"fast"}, ()], 9.0)
    sources = [one(slow=1, fast=50), one(x=3)]
    assert floors(activity, sources, [TEN, TEN], 12.0) == (at(50), at(50))


def test_a_run_that_begins_knows_of_no_idle_time_but_keeps_the_floor() -> None:
    committed: SourceMarks = ({"a": at(3), "b": at(60)}, at(50), False)
    restarted = begun(1, 1_000.0)
    resumed = active_after(restarted, [{"b"}], 1_009.0)
    assert floors(resumed, [committed], [TEN], 1_009.0) == (at(50),)
    assert floors(resumed, [committed], [TEN], 1_010.0) == (at(60),)


def test_finished_substreams_are_forgotten_but_their_source_was_active() -> None:
    activity = active((0.0, "a"), (5.0, "b"))
    activity = active_after(activity, [{"c"}], 6.0, known=[{"a"}])
    assert set(activity.last[0]) == {"a", "c", ""}
    for n in range(100):
        activity = active_after(activity, [{f"f{n}"}], 7.0 + n, known=[{"a"}])
    assert len(activity.last[0]) == 3
    assert not activity.idle_as_a_whole(0, TEN, 107.0)
    assert activity.idle_as_a_whole(0, TEN, 116.0)


SHOWN = st.sets(st.sampled_from("ab"))
STEPS = st.lists(st.tuples(st.floats(0, 20), SHOWN, SHOWN, st.integers(0, 50)), max_size=10)


@given(STEPS, st.sampled_from([None, 0.001, 5.0]), st.sampled_from([None, 5.0]))
def test_floors_never_go_back(
    steps: list[tuple[float, set[str], set[str], int]], first: float | None, second: float | None
) -> None:
    """And none is above the furthest that any substream has said."""
    now, activity = 0.0, begun(2, 0.0)
    marks: list[dict[str, Mark]] = [{}, {}]
    low: tuple[Mark, ...] = (BEGIN, BEGIN)
    for pause, *shown, time in steps:
        now += pause
        activity = active_after(activity, shown, now, known=marks)
        after = floors(activity, [(m, floor, False) for m, floor in zip(marks, low, strict=True)], [first, second], now)
        assert all(a >= b for a, b in zip(after, low, strict=True))
        assert all(floor == BEGIN or floor <= max(max(m.values(), default=BEGIN) for m in marks) for floor in after)
        low = after
        marks = [
            advance(Ordered(), m, [Seen(s, n, time, time) for n, s in enumerate(sorted(names))])
            for m, names in zip(marks, shown, strict=True)
        ]


def test_the_end_is_not_given_away() -> None:
    activity = active_after(begun(2, 0.0), [{"x"}, ()], 99.0)
    sources: list[SourceMarks] = [({"x": at(4)}, BEGIN, True), one(a=3)]
    assert END not in floors(activity, sources, [TEN, TEN], 99.0)
