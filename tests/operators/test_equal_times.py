"""Groups by moments: what joint marks complete, and what they say of each time by itself."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.errors import QueryError
from penstock.operators.aggregates.measures import Measure
from penstock.operators.arrange import times_of
from penstock.operators.equal_times import EqualTimesAggregate
from penstock.operators.protocol import Portion, Stored
from penstock.progress.mark import BEGIN, END, MAX_TIME, MIN_TIME, Marks, at

SCHEMA = pa.schema([("k", pa.string()), ("s", pa.int64()), ("t", pa.timestamp("us")), ("v", pa.int64())])
COUNT = (Measure("rows", "count", None),)


def moments(*times: str, latest: tuple[int | None, ...] = (0, None)) -> EqualTimesAggregate:
    return EqualTimesAggregate(("k",), times, latest[: len(times)], COUNT, SCHEMA)


def pairs(*times: tuple[int, int]) -> pa.Table:
    return pa.table([["a"] * len(times), [s for s, _ in times], [t for _, t in times], [1] * len(times)], schema=SCHEMA)


def completed(aggregate: EqualTimesAggregate, table: pa.Table, after: Marks, upto: Marks) -> list[tuple[int, ...]]:
    stored = [Stored(table, int(times_of(table).min()), int(times_of(table).max()))]
    done = aggregate.work(Portion((stored,), (table.slice(0, 0),), after, upto))
    assert [kept.num_rows for kept in done.keep] == [0]
    found = [table.cast(_plain(table.schema)) for table in done.results]
    return sorted((r["s"], r["t"], r["rows"]) for table in found for r in table.to_pylist())


def _plain(schema: pa.Schema) -> pa.Schema:
    """Timestamps as whole numbers."""
    return pa.schema([f.with_type(pa.int64()) if pa.types.is_timestamp(f.type) else f for f in schema])


def test_joint_marks_complete_a_group_long_before_either_time_is() -> None:
    # The times of a join with a band of 120: a group (0, 1) is complete once both inputs are past it.
    aggregate = moments("s", "t", latest=(0, 120))
    table = aggregate.prepare(0, pairs((0, 1), (0, 1), (0, 2), (1, 1)))
    assert completed(aggregate, table, (BEGIN, BEGIN), (at(1), at(1))) == []
    assert completed(aggregate, table, (BEGIN, BEGIN), (at(1), at(2))) == [(0, 1, 2)]
    assert completed(aggregate, table, (at(1), at(2)), (at(2), at(2))) == [(1, 1, 1)]
    assert completed(aggregate, table, (at(2), at(2)), (END, END)) == [(0, 2, 1)]
    assert completed(aggregate, table, (END, END), (END, END)) == []


def test_one_input_that_has_ended_leaves_the_other_time_to_decide() -> None:
    aggregate = moments("s", "t")
    table = aggregate.prepare(0, pairs((0, 1), (9, 2)))
    assert completed(aggregate, table, (BEGIN, BEGIN), (END, at(2))) == [(0, 1, 1)]
    assert completed(aggregate, table, (END, at(2)), (END, at(3))) == [(9, 2, 1)]


def test_marks_of_a_band_that_is_bounded() -> None:
    aggregate = moments("s", "t", latest=(0, 120))
    assert aggregate.output_times == ("s", "t", "", "")
    assert aggregate.output_marks((at(500), at(300))) == (at(180), BEGIN, at(500), at(300))
    assert aggregate.output_marks((at(100), at(300))) == (at(100), BEGIN, at(100), at(300))
    assert aggregate.output_marks((END, at(300))) == (at(180), at(300), END, at(300))
    assert aggregate.output_marks((END, END)) == (END, END, END, END)
    assert aggregate.expired_below(0, (at(500), at(300))) == 180
    assert aggregate.expired_below(0, (END, END)) == MAX_TIME


def test_without_a_bound_nothing_expires_before_the_other_time_has_ended() -> None:
    aggregate = moments("s", "t", latest=(0, None))
    assert aggregate.expired_below(0, (at(500), at(300))) == MIN_TIME
    assert aggregate.expired_below(0, (at(500), END)) == 500
    assert aggregate.output_marks((at(500), END))[:2] == (at(500), BEGIN)


def test_one_time_has_its_own_mark() -> None:
    aggregate = moments("t")
    assert aggregate.tracks == 1
    assert aggregate.output_marks((at(5),)) == (at(5), at(5))
    assert aggregate.expired_below(0, (at(5),)) == 5


def test_what_is_due() -> None:
    aggregate = moments("s", "t", latest=(0, 10))
    assert not aggregate.due((BEGIN, BEGIN), (at(5), at(5)), (5,))
    assert aggregate.due((BEGIN, BEGIN), (at(6), at(5)), (5,))
    assert not aggregate.due((at(6), at(5)), (at(6), at(5)), (5,))
    assert not aggregate.due((at(6), at(5)), (END, END), (None,))
    assert not aggregate.due((at(9), at(19)), (at(9), END), (5,)), "all below 9 is complete already"


def test_names_of_windows_are_free_for_times() -> None:
    schema = pa.schema([("window_start", pa.int64()), ("window_end", pa.int64())])
    aggregate = EqualTimesAggregate(("window_start",), ("window_end",), (0,), COUNT, schema)
    assert aggregate.result_schema.names == ["window_start", "window_end", "rows"]


def test_groups_of_one_key_are_spread_over_hashes() -> None:
    aggregate = EqualTimesAggregate((), ("s",), (0,), COUNT, SCHEMA)
    assert len(set(aggregate.prepare(0, pairs((1, 0), (2, 0), (3, 0)))["#hash"].to_pylist())) == 3


@pytest.mark.parametrize(
    ("keys", "times", "latest", "wanted"),
    [
        (("k",), (), (), "needs times"),
        (("k",), ("s", "t"), (0,), "needs times, and a bound for each"),
        (("k",), ("k",), (0,), "cannot be over `k`"),
        (("k",), ("u",), (0,), "unknown column `u`"),
        (("s",), ("s",), (0,), "two columns of the result are called `s`"),
    ],
)
def test_what_cannot_be_computed_is_refused(
    keys: tuple[str, ...], times: tuple[str, ...], latest: tuple[int | None, ...], wanted: str
) -> None:
    with pytest.raises(QueryError, match=wanted):
        EqualTimesAggregate(keys, times, latest, COUNT, SCHEMA)
