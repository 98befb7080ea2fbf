"""Sessions against DuckDB in batch, over random rows, cuts, marks, gaps, types, hash widths and schedules."""

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
from penstock.operators.session.session import SessionAggregate
from penstock.operators.window.kinds import Session
from penstock.progress.mark import BEGIN, END, Mark, at
from penstock.types import time_array, time_values
from tests.support.amounts import some_of

DUCKDB = duckdb.connect(config={"threads": 1})


def oracle(rows: pa.Table, keys: list[str], gap: int, functions: list[str]) -> dict:
    """A row begins a session if the one before it is a gap away; sessions are numbered by their beginnings."""
    DUCKDB.register("rows", rows.append_column("t", pa.array(time_values(rows["ts"]))))
    by_key = f"PARTITION BY {', '.join(keys)}" if keys else ""
    names = "".join(f", {key}" for key in keys)
    query = f"""
        WITH marked AS (
            SELECT *, (t - lag(t) OVER ({by_key} ORDER BY t) < {gap}) IS NOT TRUE AS begins FROM rows
        ), numbered AS (SELECT *, sum(begins::INT) OVER ({by_key} ORDER BY t) AS session FROM marked)
        SELECT min(t), max(t) + {gap}{names}, {", ".join(["count(*)", *(SQL[f] for f in functions)])}
        FROM numbered GROUP BY session{names}
    """
    width = 2 + len(keys)
    found = DUCKDB.execute(query).fetchall()
    return {tuple(map(plain, row[:width])): [plain(v) for v in row[width:]] for row in found}


def as_dict(aggregate: SessionAggregate, results: pa.Table) -> dict:
    borders = [time_values(results[name]).tolist() for name in ("window_start", "window_end")]
    keys = [[plain(v) for v in results[i].to_pylist()] for i in range(len(aggregate.keys))]
    values = [[plain(v) for v in results[m.name].to_pylist()] for m in aggregate.measures]
    names = list(zip(*borders, *keys, strict=True))
    assert len(set(names)) == len(names), "a session came twice"
    return {name: [column[i] for column in values] for i, name in enumerate(names)}


def mark_before(pieces: list[pa.Table], slack: int) -> Mark:
    """As high as the rows still to come allow, less some slack."""
    coming = [int(time_values(p["ts"]).min()) for p in pieces if p.num_rows]
    return at(min(coming) - slack) if coming else END


def stream(aggregate: SessionAggregate, pieces: list[pa.Table], random: Random, slack: int) -> pa.Table:
    driver, mark = ClosingDriver(aggregate, random), BEGIN
    for i, piece in enumerate(pieces):
        mark = max(mark, mark_before(pieces[i + 1 :], random.randint(0, slack)))
        driver.epoch(piece, (mark,))
    driver.epoch(pieces[0].slice(0, 0), (END,), lag=0)
    assert driver.runs == []
    return driver.all_results()


def check(
    rows: pa.Table, pieces: list[pa.Table], gap: int, functions: list[str], bits: int, seed: int, slack: int = 10
) -> None:
    keys = [name for name in rows.column_names if name.startswith("k")]
    measures = (Measure("rows", "count", None), *(Measure(f"m_{f}", f, "v") for f in functions))
    aggregate = SessionAggregate(tuple(keys), Session("ts", gap), measures, rows.schema, bits)
    found = as_dict(aggregate, stream(aggregate, pieces, Random(seed), slack))
    assert_same(found, oracle(rows, keys, gap, functions))


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Rows with times near their place, so that marks move along, or anywhere."""
    length, disorder = draw(st.integers(0, 40)), draw(st.sampled_from([3, 10, 40]))
    offsets = draw(st.lists(st.integers(-disorder, disorder), min_size=length, max_size=length))
    times = np.array([2 * i - 40 + offset for i, offset in enumerate(offsets)], dtype=np.int64)
    key_types = draw(st.lists(st.sampled_from(list(POOLS)), max_size=2))
    keys = {f"k{i}": draw(columns(type_, length)) for i, type_ in enumerate(key_types)}
    values = draw(columns(draw(st.sampled_from(list(POOLS))), length))
    return pa.table(
        {**keys, "ts": time_array(times, draw(st.sampled_from([pa.int64(), pa.timestamp("us")]))), "v": values}
    )


quick = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=120)


@quick
@given(
    tables(), st.lists(st.integers(0, 40), max_size=12), st.integers(1, 30), st.sampled_from([64, 8, 0]), st.integers(0)
)
def test_any_stream_gives_the_batch_answer(rows: pa.Table, cuts: list[int], gap: int, bits: int, seed: int) -> None:
    check(rows, cut(rows, cuts), gap, functions_for(rows.schema.field("v").type), bits, seed)


@pytest.mark.parametrize("bits", [64, 8, 0])
@pytest.mark.parametrize("gap", some_of([1, 4, 11, 60], 2))
def test_many_rows_in_many_epochs(gap: int, bits: int) -> None:
    random = np.random.default_rng(gap)
    times = np.arange(-1500, 1500) + random.integers(0, 40, 3000)
    keys = pa.array(random.integers(0, 12, 3000), mask=random.random(3000) < 0.05).cast(pa.string())
    values = pa.array(random.normal(10, 3, 3000), mask=random.random(3000) < 0.1)
    rows = pa.table({"k0": keys, "ts": pa.array(times), "v": values})
    check(rows, [rows.slice(i, 100) for i in range(0, 3000, 100)], gap, list(SQL), bits, gap, slack=30)
