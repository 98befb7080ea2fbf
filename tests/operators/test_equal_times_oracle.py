"""Groups by moments against DuckDB in batch, over random rows, joint marks, types, hash widths and schedules."""

from __future__ import annotations

from random import Random

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from closing_driver import ClosingDriver, cut
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_aggregate_oracle import POOLS, SQL, assert_same, columns, functions_for, plain

from penstock.operators.aggregates.measures import Measure
from penstock.operators.equal_times import EqualTimesAggregate
from penstock.progress.mark import BEGIN, END, Mark, Marks, at
from penstock.types import time_array, time_values

DUCKDB = duckdb.connect(config={"threads": 1})


def times_in(names: list[str], rows: pa.Table) -> np.ndarray:
    return np.stack([time_values(rows[name]) for name in names], axis=1)


def oracle(rows: pa.Table, keys: list[str], times: list[str], functions: list[str]) -> dict:
    shown = rows.append_column("t", pa.array(time_values(rows[times[0]])))
    names = ", ".join([*keys, *times])
    DUCKDB.register("rows", shown)
    values = ", ".join(["count(*)", *(SQL[f] for f in functions)])
    found = DUCKDB.execute(f"SELECT {names}, {values} FROM rows GROUP BY {names}").fetchall()
    width = len(keys) + len(times)
    return {tuple(map(plain, row[:width])): [plain(v) for v in row[width:]] for row in found}


def as_dict(results: pa.Table, width: int) -> dict:
    found = [[plain(v) for v in row.values()] for row in results.to_pylist()]
    names = [tuple(row[:width]) for row in found]
    assert len(set(names)) == len(names), "a group came twice"
    return {tuple(row[:width]): row[width:] for row in found}


def raised(marks: Marks, coming: np.ndarray, random: Random) -> Marks:
    """One of the joint marks moved on, at most as far as the rows still to come allow."""
    j = random.randrange(len(marks))
    below = np.ones(len(coming), dtype=np.bool_)
    for i, mark in enumerate(marks):
        if i != j:
            below &= mark.ended | (coming[:, i] < mark.at)
    most: Mark = at(int(coming[below, j].min())) if below.any() else END
    wanted = at(random.randint(-60, 90)) if random.random() < 0.7 else most
    return (*marks[:j], max(marks[j], min(most, wanted)), *marks[j + 1 :])


def stream(aggregate: EqualTimesAggregate, pieces: list[pa.Table], random: Random) -> pa.Table:
    driver, marks = ClosingDriver(aggregate, random), (BEGIN,) * aggregate.tracks
    for i, piece in enumerate(pieces):
        rest = [times_in(list(aggregate.times), p) for p in pieces[i + 1 :]]
        coming = np.concatenate([np.empty((0, aggregate.tracks), dtype=np.int64), *rest])
        for _ in range(random.randint(0, 4)):
            marks = raised(marks, coming, random)
        driver.epoch(piece, marks)
    driver.epoch(pieces[0].slice(0, 0), (END,) * aggregate.tracks, lag=0)
    assert driver.runs == []
    return driver.all_results()


def bounds(rows: pa.Table, times: list[str], known: list[bool]) -> tuple[int | None, ...]:
    """The least bounds that hold; None where they are to be unknown."""
    values = times_in(times, rows)
    leads = (values - values[:, :1]).max(axis=0).tolist() if len(values) else [0] * len(times)
    return (0, *(lead if flag else None for lead, flag in zip(leads[1:], known, strict=False)))


def check(
    rows: pa.Table, pieces: list[pa.Table], known: list[bool], functions: list[str], bits: int, seed: int
) -> None:
    keys, times = ([name for name in rows.column_names if name[0] == letter] for letter in "ks")
    measures = (Measure("rows", "count", None), *(Measure(f"m_{f}", f, "v") for f in functions))
    latest = bounds(rows, times, known)
    aggregate = EqualTimesAggregate(tuple(keys), tuple(times), latest, measures, rows.schema, bits)
    found = as_dict(stream(aggregate, pieces, Random(seed)), len(keys) + len(times))
    assert_same(found, oracle(rows, keys, times, functions))


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Rows with one to three times, not far from each other and near their place."""
    length, disorder = draw(st.integers(0, 30)), draw(st.sampled_from([2, 8, 30]))
    offsets = st.lists(st.integers(-disorder, disorder), min_size=length, max_size=length)
    first = np.array(draw(offsets), dtype=np.int64) + 2 * np.arange(length) - 30
    leads = st.lists(st.integers(-3, 4), min_size=length, max_size=length)
    others = [first + np.array(draw(leads), dtype=np.int64) for _ in range(draw(st.integers(0, 2)))]
    time_types = st.sampled_from([pa.int64(), pa.timestamp("us")])
    times = {f"s{i}": time_array(values, draw(time_types)) for i, values in enumerate([first, *others])}
    key_types = draw(st.lists(st.sampled_from(list(POOLS)), max_size=2))
    keys = {f"k{i}": draw(columns(type_, length)) for i, type_ in enumerate(key_types)}
    return pa.table({**keys, **times, "v": draw(columns(draw(st.sampled_from(list(POOLS))), length))})


quick = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=120)


@quick
@given(
    tables(),
    st.lists(st.integers(0, 30), max_size=10),
    st.lists(st.booleans(), min_size=2, max_size=2),
    st.sampled_from([64, 8, 0]),
    st.integers(0),
)
def test_any_stream_gives_the_batch_answer(
    rows: pa.Table, cuts: list[int], known: list[bool], bits: int, seed: int
) -> None:
    check(rows, cut(rows, cuts), known, functions_for(rows.schema.field("v").type), bits, seed)


@pytest.mark.parametrize("bits", [64, 8, 0])
@pytest.mark.parametrize("known", [True, False])
def test_many_rows_in_many_epochs(known: bool, bits: int) -> None:
    random = np.random.default_rng(5)
    first = np.arange(2000) // 20 - 50 + random.integers(0, 4, 2000)
    keys = pa.array(random.integers(0, 3, 2000), mask=random.random(2000) < 0.1)
    values = pa.array(random.normal(10, 3, 2000), mask=random.random(2000) < 0.1)
    times = {"s0": pa.array(first), "s1": pa.array(first + random.integers(-2, 3, 2000))}
    rows = pa.table({"k0": keys, **times, "v": values})
    check(rows, [rows.slice(i, 80) for i in range(0, 2000, 80)], [known], list(SQL), bits, 5)
