"""The band join portion by portion: what is found when, what stays, what is promised."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest

from penstock.errors import QueryError
from penstock.operators.band_join.join import BandJoin
from penstock.operators.bands import Band
from penstock.operators.protocol import Portion, Stored
from penstock.progress.mark import BEGIN, END, MAX_TIME, MIN_TIME, Marks, at
from penstock.state.runs import TIME
from penstock.type_names import TIMESTAMP

KINDS = ("inner", "left", "right", "full", "semi", "anti")


def port_schema(port: int) -> pa.Schema:
    return pa.schema([(f"k{port}", pa.int64()), (f"t{port}", TIMESTAMP)])


def band_join(kind: str, before: int | None, after: int | None) -> BandJoin:
    schemas = (port_schema(0), port_schema(1))
    names = tuple(tuple(schema.names) for schema in schemas)
    return BandJoin(kind, schemas, (("k0",), ("k1",)), ("t0", "t1"), names, (Band(0, 1, before, after),))


class Steps:
    """A join fed by hand, one key; rows are times."""

    def __init__(self, join: BandJoin) -> None:
        self.join, self.marks = join, (BEGIN, BEGIN)
        self.stored: tuple[list[Stored], list[Stored]] = ([], [])

    def step(self, left: Sequence[int], right: Sequence[int], upto: Marks, key: int | None = 1) -> list[object]:
        """The results of a portion, each as the times of its rows, sorted."""
        fresh = tuple(self.join.prepare(port, self.rows(port, times, key)) for port, times in enumerate((left, right)))
        done = self.join.work(Portion(self.stored, fresh, self.marks, upto))
        found = [row for table in done.results for row in self.times_of(table)]
        for port, kept in enumerate(done.keep):
            self.stored[port].append(Stored(kept, MIN_TIME, MAX_TIME))
        self.marks = upto
        return sorted(found, key=repr)

    @staticmethod
    def rows(port: int, times: Sequence[int], key: int | None) -> pa.Table:
        columns = [pa.array([key] * len(times), pa.int64()), pa.array(times, pa.int64()).cast(TIMESTAMP)]
        return pa.table(columns, schema=port_schema(port))

    @staticmethod
    def times_of(table: pa.Table) -> list[object]:
        times = [table.column(name).cast(pa.int64()).to_pylist() for name in table.column_names if name[0] == "t"]
        return list(zip(*times, strict=True))

    def kept(self, port: int) -> list[int]:
        return sorted(time for s in self.stored[port] for time in s.rows.column(TIME).to_pylist())


def test_a_row_that_had_a_partner_is_not_given_again_when_the_partner_has_gone() -> None:
    """A stream with itself, equal times: each row meets itself in one portion and is decided in a later one."""
    steps = Steps(band_join("left", 0, 0))
    assert steps.step([5, 6], [5, 6], (at(5), at(5))) == [(5, 5), (6, 6)]
    assert steps.step([], [], (at(6), at(6))) == []
    assert steps.step([7], [], (at(7), at(7))) == []
    assert steps.step([], [], (END, END)) == [(7, None)]


def test_rows_of_the_portion_in_which_others_expire_are_not_lost() -> None:
    steps = Steps(band_join("full", 2, 2))
    assert steps.step([10], [], (at(10), at(10))) == []
    assert steps.step([20], [12], (at(20), at(20))) == [(10, 12)]
    assert steps.step([], [22, 23], (END, END)) == [(20, 22), (None, 23)]


def test_rows_that_need_not_be_stored_still_meet_partners_of_their_portion() -> None:
    """At the border: the marks pass the last partner of every row in the portion that brings the rows."""
    steps = Steps(band_join("full", 3, 4))
    assert steps.step([10, 11, 50], [14, 7, 90], (at(40), at(40))) == [(10, 14), (10, 7), (11, 14)]
    assert steps.kept(0) == [50]
    assert steps.step([], [], (at(54), at(54))) == []
    assert steps.step([], [], (at(55), at(55))) == [(50, None)]
    assert steps.step([], [], (END, END)) == [(None, 90)]


@pytest.mark.parametrize(
    ("kind", "wanted"), [("left", [(5, None)]), ("full", [(5, None)]), ("anti", [(5,)]), ("inner", [])]
)
def test_a_row_without_a_key_is_given_at_once(kind: str, wanted: list[object]) -> None:
    steps = Steps(band_join(kind, 3, 3))
    assert steps.step([5], [], (BEGIN, BEGIN), key=None) == wanted
    assert steps.kept(0) == []
    assert steps.step([], [], (END, END)) == []


def test_a_semi_join_gives_a_row_at_its_first_partner_only() -> None:
    steps = Steps(band_join("semi", 3, 3))
    assert steps.step([5, 6], [], (BEGIN, BEGIN)) == []
    assert steps.step([], [8, 8], (BEGIN, BEGIN)) == [(5,), (6,)]
    assert steps.step([7], [7], (BEGIN, BEGIN)) == [(7,)]
    assert steps.kept(0) == [5, 6]  # a row that comes to its partner is not stored


def test_an_anti_join_does_not_store_a_row_that_comes_to_its_partner() -> None:
    steps = Steps(band_join("anti", 3, 3))
    assert steps.step([5, 20], [6], (BEGIN, BEGIN)) == []
    assert steps.kept(0) == [20]
    assert steps.step([], [], (END, at(24))) == [(20,)]


def test_the_two_sides_of_an_asymmetric_band_are_not_mixed_up() -> None:
    """left - 1 <= right <= left + 10: a left row waits for long, a right row hardly."""
    steps = Steps(band_join("inner", 1, 10))
    assert steps.step([100], [100], (at(102), at(102))) == [(100, 100)]
    assert (steps.kept(0), steps.kept(1)) == ([100], [])
    assert steps.step([], [110], (at(111), at(111))) == [(100, 110)]
    assert [steps.join.expired_below(port, steps.marks) for port in (0, 1)] == [101, 110]


def test_partners_of_outer_rows_stay_until_those_are_decided() -> None:
    """Right row 10 meets left rows up to 13. The last is decided when the right mark passes 18."""
    left = band_join("left", 3, 5)
    assert left.expired_below(1, (END, at(18))) == 10
    assert left.expired_below(1, (END, at(19))) == 11
    assert left.expired_below(1, (at(13), END)) == 10
    assert replace(left, kind="inner").expired_below(1, (END, at(18))) == MAX_TIME
    assert left.expired_below(0, (END, at(15))) == 10


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_band_rows_stay_until_the_other_input_ends(kind: str) -> None:
    join = band_join(kind, None, None)
    assert join.expired_below(0, (at(50), at(50))) == MIN_TIME
    assert join.expired_below(0, (END, END)) == MAX_TIME
    assert join.span(0) == 2**62
    assert set(join.output_marks((at(50), at(50)))[:2]) <= {BEGIN}
    assert set(join.output_marks((END, END))) == {END}


def test_marks_of_the_result() -> None:
    inner = band_join("inner", 1, 10)
    assert inner.output_times == ("t0", "t1", "", "")
    assert inner.output_marks((at(100), at(105))) == (at(95), at(99), at(100), at(105))
    assert inner.output_marks((END, at(105))) == (at(95), at(105), END, at(105))
    for kind, name, mark in (("left", "t0", 95), ("semi", "t0", 95), ("anti", "t0", 95), ("right", "t1", 99)):
        join = replace(inner, kind=kind)
        assert (join.output_times, join.output_marks((at(100), at(105)))) == ((name,), (at(mark),))
    full = replace(inner, kind="full")
    assert (full.output_times, full.output_marks((END, at(105))), full.output_marks((END, END))) == (
        ("",),
        (BEGIN,),
        (END,),
    )


def test_marks_do_not_wrap() -> None:
    join = band_join("inner", 5, 5)
    assert join.output_marks((at(MIN_TIME + 2), at(MIN_TIME)))[:2] == (BEGIN, BEGIN)
    assert join.expired_below(0, (BEGIN, BEGIN)) == MIN_TIME
    assert band_join("inner", -5, 9).expired_below(1, (at(MAX_TIME - 2), BEGIN)) == MAX_TIME


def test_what_is_due_without_fresh_rows() -> None:
    before, beyond = (at(0), at(10)), (at(0), at(20))
    left = band_join("left", 3, 4)
    assert left.due(before, beyond, (15, None))
    assert not left.due(before, beyond, (16, None))  # decided only when the mark passes 20
    assert not left.due(before, before, (0, None))
    assert not left.due(before, (at(30), at(10)), (0, 0))
    assert not left.due(before, beyond, (None, 0))
    assert band_join("right", 3, 4).due((at(10), BEGIN), (at(20), BEGIN), (None, 16))
    assert not band_join("inner", 3, 4).due(before, (END, END), (0, 0))
    assert not band_join("semi", 3, 4).due(before, (END, END), (0, 0))
    assert band_join("anti", None, None).due(before, (at(0), END), (0, None))


def test_state_holds_each_column_once_and_the_time_as_a_number() -> None:
    join = replace(band_join("left", 1, 1), payload=(("t0",), ()))
    assert join.state_schema(0).names == ["#hash", "#time", "k0"]
    assert join.state_schema(1).names == ["#hash", "#time", "k1"]
    assert join.result_schema.names == ["t0"]
    assert (join.output_times, join.reach) == (("t0",), 2)


def test_a_join_is_a_plain_value() -> None:
    join = band_join("left", 1, 1)
    assert pickle.loads(pickle.dumps(join)) == join == band_join("left", 1, 1)
    assert join != band_join("left", 1, 2)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"kind": "outer"}, "there is no outer join"),
        ({"keys": (("k0",), ())}, "the same number of key columns"),
        ({"keys": ((), ())}, "the same number of key columns"),
        ({"keys": (("k0",), ("t1",))}, "have different types and cannot be joined"),
        ({"keys": (("k0",), ("k",))}, "unknown column `k`"),
        ({"times": ("t0", "t")}, "unknown column `t`"),
        ({"payload": (("k0", "k0"), ())}, "two columns of the result are called `k0`"),
        ({"payload": (("k0", "k"), ())}, "unknown column `k`"),
        ({"schemas": (port_schema(0),), "keys": (("k0",),), "times": ("t0",), "payload": ((),)}, "cannot have 1 input"),
    ],
)
def test_what_is_not_a_join(change: dict[str, object], what: str) -> None:
    with pytest.raises(QueryError, match=what):
        replace(band_join("inner", 1, 1), **change)


def test_only_inner_joins_have_more_than_two_inputs() -> None:
    schemas = tuple(port_schema(port) for port in range(3))
    with pytest.raises(QueryError, match="a join of kind left cannot have 3 inputs"):
        BandJoin("left", schemas, (("k0",), ("k1",), ("k2",)), ("t0", "t1", "t2"), ((), (), ()), ())
