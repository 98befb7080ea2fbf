"""Sessions: borders, merging over many steps, what is carried, and what the engine is told of progress."""

from __future__ import annotations

import pickle
from random import Random

import pyarrow as pa
import pytest
from closing_driver import ClosingDriver

from penstock.errors import QueryError
from penstock.operators.aggregates.measures import Measure
from penstock.operators.arrange import times_of
from penstock.operators.protocol import Portion, Stored
from penstock.operators.session.session import SessionAggregate
from penstock.operators.window.kinds import Session
from penstock.progress.mark import BEGIN, END, MAX_TIME, MIN_TIME, Mark, at
from tests.support.amounts import some_of

SCHEMA = pa.schema([("k", pa.string()), ("ts", pa.int64()), ("v", pa.int64())])
MEASURES = (Measure("rows", "count", None), Measure("total", "sum", "v"), Measure("kinds", "count_distinct", "v"))


def sessions(gap: int = 10, bits: int = 64, keys: tuple[str, ...] = ("k",)) -> SessionAggregate:
    return SessionAggregate(keys, Session("ts", gap), MEASURES, SCHEMA, bits)


def rows(*times: int, key: str | None = "a") -> pa.Table:
    return pa.table([[key] * len(times), list(times), [1] * len(times)], schema=SCHEMA)


def stored(*tables: pa.Table) -> tuple[list[Stored]]:
    return ([Stored(t, int(times_of(t).min()), int(times_of(t).max())) for t in tables],)


def step(
    aggregate: SessionAggregate, tables: list[pa.Table], after: Mark, upto: Mark
) -> tuple[list[tuple[object, ...]], pa.Table]:
    """The results as (key, start, end, rows), and what is carried."""
    empty = aggregate.state_schema(0).empty_table()
    done = aggregate.work(Portion(stored(*tables), (empty,), (after,), (upto,)))
    found = [r for table in done.results for r in table.to_pylist()]
    return [(r["k"], r["window_start"], r["window_end"], r["rows"]) for r in found], done.keep[0]


def driven(aggregate: SessionAggregate, *epochs: tuple[pa.Table, Mark], seed: int = 1) -> list[tuple[object, ...]]:
    driver = ClosingDriver(aggregate, Random(seed))
    for piece, mark in epochs:
        driver.epoch(piece, (mark,), lag=0)
    found = driver.all_results().to_pylist()
    return sorted((r["window_start"], r["window_end"], r["rows"], r["total"]) for r in found)


def test_a_row_exactly_a_gap_later_begins_a_new_session() -> None:
    aggregate = sessions(gap=10)
    results, _ = step(aggregate, [aggregate.prepare(0, rows(0, 9, 19, 28))], BEGIN, END)
    assert sorted(results) == [("a", 0, 19, 2), ("a", 19, 38, 2)]


@pytest.mark.parametrize("bits", [64, 8, 0])
def test_sessions_of_different_keys_do_not_touch(bits: int) -> None:
    aggregate = sessions(gap=10, bits=bits)
    tables = [aggregate.prepare(0, rows(*times, key=key)) for key, times in ((None, (0, 5)), ("b", (3,)), ("c", (14,)))]
    results, _ = step(aggregate, [aggregate.combine(0, tables)], BEGIN, END)
    assert set(results) == {(None, 0, 15, 2), ("b", 3, 13, 1), ("c", 14, 24, 1)}


def test_a_session_is_over_once_the_mark_reaches_its_end() -> None:
    aggregate = sessions(gap=10)
    table = aggregate.prepare(0, rows(5))
    assert step(aggregate, [table], BEGIN, at(14))[0] == []
    assert step(aggregate, [table], at(14), at(15))[0] == [("a", 5, 15, 1)]
    assert step(aggregate, [table], at(15), END)[0] == []
    assert step(aggregate, [table], END, END)[0] == []


@pytest.mark.parametrize("seed", some_of(range(20)))
def test_c14_a_session_that_merges_over_epochs_is_closed_once_and_whole(seed: int) -> None:
    # Each epoch the mark passes the end that the earlier fragments had by themselves, so that all of them are spent
    # and their runs dropped, many times over, while the session goes on.
    steps = range(0, 400, 8)
    epochs = [(rows(t, t + 4), at(t + 8)) for t in steps]
    found = driven(sessions(gap=10), *epochs, (rows(), at(406)), (rows(), END), seed=seed)
    assert found == [(0, 406, 100, 100)]


def test_c14_state_read_again_closes_what_was_open() -> None:
    aggregate = sessions(gap=10)
    runs = [aggregate.prepare(0, rows(0)), aggregate.prepare(0, rows(8))]
    results, carried = step(aggregate, runs, BEGIN, at(17))
    assert results == []
    # The first run has expired at 17; all there is after a restart is the other one and what was carried.
    alive = [t for t in (*runs, carried) if t.num_rows and times_of(t).max() >= aggregate.expired_below(0, (at(17),))]
    assert step(aggregate, alive, at(17), at(18))[0] == [("a", 0, 18, 2)]


@pytest.mark.parametrize("seed", some_of(range(20)))
def test_c15_a_late_row_that_bridges_two_sessions(seed: int) -> None:
    # The row at 14 comes last, behind rows at 30, but it is on time: the mark is 12.
    epochs = [(rows(0, 5), at(4)), (rows(22, 30), at(12)), (rows(14), at(24)), (rows(), at(39)), (rows(), at(40))]
    assert driven(sessions(gap=10), *epochs, seed=seed) == [(0, 40, 5, 5)]


@pytest.mark.parametrize("seed", some_of(range(20)))
def test_two_sessions_that_were_carried_become_one(seed: int) -> None:
    epochs = [
        (rows(0), at(0)), (rows(9), at(9)), (rows(18, 36), at(18)), (rows(30, 45), at(26)), (rows(27), at(50)),
        (rows(), END),
    ]  # fmt: skip
    assert driven(sessions(gap=10), *epochs, seed=seed) == [(0, 55, 7, 7)]


def test_combining_spent_fragments_with_others_counts_nothing_twice() -> None:
    aggregate = sessions(gap=10)
    early, late = aggregate.prepare(0, rows(0)), aggregate.prepare(0, rows(8))
    _, carried = step(aggregate, [early, late], BEGIN, at(15))
    assert carried.num_rows == 1
    merged = aggregate.combine(0, [late, early])
    assert step(aggregate, [merged, carried], at(15), END)[0] == [("a", 0, 18, 2)]


def test_combining_fragments_of_a_closed_session_does_not_open_it_again() -> None:
    aggregate = sessions(gap=10)
    closed, other = aggregate.prepare(0, rows(0, 7)), aggregate.prepare(0, rows(20))
    assert step(aggregate, [closed], BEGIN, at(17))[0] == [("a", 0, 17, 2)]
    merged = aggregate.combine(0, [closed, other])
    assert step(aggregate, [merged], at(17), END)[0] == [("a", 20, 30, 1)]


def test_fragments_that_combine_merges_are_spent_together() -> None:
    # At 42 only the first fragment is past its own end; were it spent alone, merging it would revive it.
    aggregate = sessions(gap=40)
    early, late = aggregate.prepare(0, rows(0)), aggregate.prepare(0, rows(5))
    results, carried = step(aggregate, [early, late], BEGIN, at(42))
    merged = aggregate.combine(0, [early, late])
    assert (results, merged.num_rows) == ([], 1)
    assert step(aggregate, [t for t in (merged, carried) if t.num_rows], at(42), END)[0] == [("a", 0, 45, 2)]


def test_fragments_of_one_pane_are_merged() -> None:
    aggregate = sessions(gap=40)
    tables = [aggregate.prepare(0, rows(t)) for t in (0, 1, 2, 3)]
    merged = aggregate.combine(0, tables)
    assert merged.num_rows == 1
    assert aggregate.combine(0, [merged]).equals(merged)


def test_the_state_of_an_endless_session_stays_small() -> None:
    driver = ClosingDriver(sessions(gap=10), Random(3))
    for t in range(0, 2000, 5):
        driver.epoch(rows(t), (at(t),), lag=0)
    assert sum(run.num_rows for run in driver.runs) < 20
    assert driver.all_results().num_rows == 0


def test_times_next_to_the_limits() -> None:
    aggregate = sessions(gap=10)
    least, largest = MIN_TIME + aggregate.reach, MAX_TIME - aggregate.reach
    table = aggregate.prepare(0, rows(least, largest, largest - 9))
    results, _ = step(aggregate, [table], BEGIN, at(MIN_TIME + 30))
    assert results == [("a", least, least + 10, 1)]
    results, _ = step(aggregate, [table], at(MIN_TIME + 30), at(MAX_TIME))
    assert results == [("a", largest - 9, largest + 10, 2)]


def test_without_keys_all_rows_are_one_key() -> None:
    aggregate = SessionAggregate((), Session("ts", 10), MEASURES, SCHEMA)
    table = aggregate.combine(0, [aggregate.prepare(0, rows(0, key="a")), aggregate.prepare(0, rows(5, key="b"))])
    done = aggregate.work(Portion(stored(table), (table.slice(0, 0),), (BEGIN,), (END,)))
    (result,) = (row for piece in done.results for row in piece.to_pylist())
    assert result == {"window_start": 0, "window_end": 15, "rows": 2, "total": 2, "kinds": 1}


def test_a_key_is_written_in_one_way_only() -> None:
    schema = pa.schema([("k", pa.float64()), ("ts", pa.int64()), ("v", pa.int64())])
    aggregate = SessionAggregate(("k",), Session("ts", 10), MEASURES, schema)
    table = aggregate.prepare(0, pa.table([[-0.0, 0.0], [0, 1], [1, 1]], schema=schema))
    ((key, _, _, count),), _ = step(aggregate, [table], BEGIN, END)
    assert (str(key), count) == ("0.0", 2)


def test_nothing_is_due_before_the_least_fragment_ends() -> None:
    aggregate = sessions(gap=10)
    assert not aggregate.due((BEGIN,), (at(14),), (5,))
    assert aggregate.due((BEGIN,), (at(15),), (5,))
    assert aggregate.due((at(20),), (END,), (5,))
    assert not aggregate.due((BEGIN,), (END,), (None,))
    assert not aggregate.due((END,), (END,), (5,))


def test_marks() -> None:
    aggregate = sessions(gap=10)
    assert aggregate.output_times == ("window_end",)
    assert aggregate.output_marks((at(7),)) == (at(8),)
    assert aggregate.output_marks((at(MAX_TIME),)) == (at(MAX_TIME),)
    assert aggregate.output_marks((END,)) == (END,)
    assert aggregate.expired_below(0, (END,)) == MAX_TIME
    assert aggregate.expired_below(0, (BEGIN,)) == MIN_TIME


def test_a_value_of_the_language() -> None:
    assert sessions() == sessions()
    assert pickle.loads(pickle.dumps(sessions())) == sessions()
    assert sessions().result_schema.names == ["k", "window_start", "window_end", "rows", "total", "kinds"]


@pytest.mark.parametrize(
    ("keys", "time", "measure", "wanted"),
    [
        (("k",), "k", "count", "a session cannot be over `k`"),
        (("k",), "tss", "count", "unknown column `tss` in a session"),
        (("kk",), "ts", "count", "unknown column `kk` in the keys"),
        (("k",), "ts", "mean", "unknown aggregate `mean`"),
    ],
)
def test_what_cannot_be_computed_is_refused(keys: tuple[str, ...], time: str, measure: str, wanted: str) -> None:
    with pytest.raises(QueryError, match=wanted):
        SessionAggregate(keys, Session(time, 1), (Measure("m", measure, "v"),), SCHEMA)


def test_two_columns_of_one_name_are_refused() -> None:
    with pytest.raises(QueryError, match="two columns of the result are called `window_end`"):
        SessionAggregate(("k",), Session("ts", 1), (Measure("window_end", "count", None),), SCHEMA)
