"""The windowed group-by against DuckDB in batch, over random rows, cuts, marks, windows, types and hash widths."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.engine.task.site.storing import alive
from penstock.operators.aggregates.measures import PARTIALS_OF, Measure
from penstock.operators.window.aggregate import WindowAggregate
from penstock.operators.window.windows import Window
from penstock.progress.mark import BEGIN, END, Mark, at
from penstock.state.runs import HASH, TIME
from penstock.types import time_array, time_values

DUCKDB = duckdb.connect(config={"threads": 1})
POOLS = {
    pa.int8(): [0, 1, -1, 127, -128],
    pa.int32(): [0, 5, -7, 2**31 - 1],
    pa.int64(): [0, 1, -3, 10**9, -(10**9)],
    pa.float32(): [0.0, -0.0, 1.5, -2.25, 1024.0],
    pa.float64(): [0.0, -0.0, 0.1, -2.7, 1e6],
    pa.decimal128(10, 2): [Decimal("0.00"), Decimal("1.25"), Decimal("-99999999.99")],
    pa.decimal128(25, 3): [Decimal("0.000"), Decimal("1.250"), Decimal("-9999999999999999999999.999")],
    pa.bool_(): [True, False],
    pa.string(): ["", "a", "b", "ab", "a longer text", "ä"],
    pa.binary(): [b"", b"a", b"\xff", b"a\x00"],
    pa.date32(): [date(1970, 1, 1), date(1969, 12, 31), date(2024, 2, 29)],
    pa.timestamp("us"): [datetime(1970, 1, 1), datetime(1901, 1, 1, 0, 0, 0, 1), datetime(2024, 2, 29, 12)],
}
SQL = {
    "count": "count(v)",
    "sum": "sum(v)",
    "avg": "avg(v)",
    "min": "min(v)",
    "max": "max(v)",
    "stddev": "stddev_samp(v)",
    "stddev_pop": "stddev_pop(v)",
    "variance": "var_samp(v)",
    "var_pop": "var_pop(v)",
    "count_distinct": "count(DISTINCT v)",
    "first": "first(v ORDER BY t, v) FILTER (WHERE v IS NOT NULL)",
    "last": "first(v ORDER BY t DESC, v DESC) FILTER (WHERE v IS NOT NULL)",
}
NUMERIC = ("sum", "avg", "stddev", "stddev_pop", "variance", "var_pop")


def functions_for(type_: pa.DataType) -> list[str]:
    t = pa.types
    if t.is_decimal(type_) and type_.precision > 18:
        return [f for f in SQL if f not in ("sum", "avg")]
    number = t.is_integer(type_) or t.is_floating(type_) or t.is_decimal(type_)
    return [f for f in SQL if number or f not in NUMERIC]


def oracle(rows: pa.Table, keys: list[str], window: Window, functions: list[str]) -> dict:
    """Every row is copied into each of its windows, and the copies are grouped."""
    rows = rows.append_column("t", pa.array(time_values(rows["ts"])))
    names = ", ".join(["start", *keys])
    values = ", ".join(["count(*)", *(SQL[f] for f in functions)])
    query = f"""
        WITH numbered AS (
            SELECT *, unnest(generate_series(0, {window.size // window.slide + 1})) AS back FROM rows
        ), copies AS (
            SELECT *, (floor((t - {window.offset}) / {window.slide})::BIGINT - back) * {window.slide} + {window.offset}
                AS start
            FROM numbered
        )
        SELECT {names}, {values} FROM copies WHERE start + {window.size} > t GROUP BY {names}
    """
    DUCKDB.register("rows", rows)
    found = DUCKDB.execute(query).fetchall()
    width = 1 + len(keys)
    return {(r[0], *map(plain, r[1:width])): [plain(v) for v in r[width:]] for r in found}


def plain(value: object) -> object:
    """Comparable: one NaN, one zero, bytes as bytes."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return bytes(value) if isinstance(value, bytearray) else value


def as_dict(aggregate: WindowAggregate, results: pa.Table) -> dict:
    assert results.schema.equals(aggregate.result_schema)
    starts, ends = (time_values(results[name]) for name in ("window_start", "window_end"))
    assert np.all(ends - starts == aggregate.window.size)
    keys = [results[i].to_pylist() for i in range(len(aggregate.keys))]
    values = [results[m.name].to_pylist() for m in aggregate.measures]
    out = {}
    for i, start in enumerate(starts.tolist()):
        name = (start, *(plain(k[i]) for k in keys))
        assert name not in out, "a window came twice"
        out[name] = [plain(v[i]) for v in values]
    return out


def assert_same(found: dict, expected: dict) -> None:
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        for ours, theirs in zip(found[name], values, strict=True):
            if isinstance(theirs, float) and isinstance(ours, float):
                assert math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-12), (name, found[name], values)
            else:
                assert ours == theirs, (name, found[name], values)


def check_sorted(aggregate: WindowAggregate, partials: pa.Table) -> None:
    """Ordered by (#hash, #time), and one row per key and pane."""
    assert partials.schema.equals(aggregate.partial_schema)
    order = list(zip(partials[HASH].to_pylist(), partials[TIME].to_pylist(), strict=True))
    assert order == sorted(order)
    names = [TIME, *(f"key.{i}" for i in range(len(aggregate.keys)))]
    identities = [tuple(map(plain, row.values())) for row in partials.select(names).to_pylist()]
    assert len(set(identities)) == len(identities)


def stream(aggregate: WindowAggregate, pieces: list[pa.Table], slacks: list[int]) -> pa.Table:
    """Runs the pieces as epochs. After each the mark is as high as the rows still to come allow, less some slack."""
    state, mark, results = aggregate.combine(0, []), BEGIN, []
    for i, piece in enumerate(pieces):
        coming = [int(time_values(p["ts"]).min()) for p in pieces[i + 1 :] if p.num_rows]
        after = max(mark, at(min(coming) - slacks[i]) if coming else END)
        state = arrive(aggregate, state, piece)
        results.append(aggregate.close(state, mark, after))
        assert not results[-1].num_rows or time_values(results[-1]["window_start"]).min() >= promised(aggregate, mark)
        state, mark = alive(state, aggregate.expired_below(0, (after,))), after
    assert state.num_rows == 0
    return pa.concat_tables(results)


def promised(aggregate: WindowAggregate, mark: Mark) -> int:
    return aggregate.output_marks((mark,))[0].at


def arrive(aggregate: WindowAggregate, state: pa.Table, piece: pa.Table) -> pa.Table:
    """Two producers send the halves of a piece; the state is read as two slices."""
    half, cut = piece.num_rows // 2, state.num_rows // 3
    blobs = [aggregate.prepare(0, part) for part in (piece.slice(0, half), piece.slice(half))]
    state = aggregate.combine(0, [state.slice(0, cut), *blobs, state.slice(cut)])
    for table in (*blobs, state):
        check_sorted(aggregate, table)
    return state


@st.composite
def windows(draw: st.DrawFn) -> Window:
    slide = draw(st.integers(1, 8))
    size = draw(st.sampled_from([slide, slide * 3, 5, 12, 1]))
    return Window("ts", size, slide, draw(st.integers(0, 9)))


@st.composite
def columns(draw: st.DrawFn, type_: pa.DataType, length: int) -> pa.Array:
    values = st.sampled_from([None, *POOLS[type_]])
    return pa.array(draw(st.lists(values, min_size=length, max_size=length)), type_)


@st.composite
def cases(draw: st.DrawFn, value_types: list[pa.DataType]) -> tuple:
    length = draw(st.integers(0, 30))
    times = draw(st.lists(st.integers(-25, 25), min_size=length, max_size=length))
    key_types = draw(st.lists(st.sampled_from(list(POOLS)), max_size=2))
    value_type, time_type = draw(st.sampled_from(value_types)), draw(st.sampled_from([pa.int64(), pa.timestamp("us")]))
    keys = {f"k{i}": draw(columns(type_, length)) for i, type_ in enumerate(key_types)}
    time = time_array(np.array(times, dtype=np.int64), time_type)
    rows = pa.table({**keys, "ts": time, "v": draw(columns(value_type, length))})
    cuts = sorted(draw(st.lists(st.integers(0, length), max_size=4)))
    pieces = [rows.slice(a, b - a) for a, b in zip([0, *cuts], [*cuts, length], strict=True)]
    slacks = draw(st.lists(st.integers(0, 10), min_size=len(pieces), max_size=len(pieces)))
    return rows, list(keys), draw(windows()), pieces, slacks, draw(st.sampled_from([64, 8, 0]))


def run(case: tuple, functions: list[str]) -> None:
    rows, keys, window, pieces, slacks, bits = case
    measures = (Measure("rows", "count", None), *(Measure(f"m_{f}", f, "v") for f in functions))
    aggregate = WindowAggregate(tuple(keys), window, measures, rows.schema, bits)
    found = as_dict(aggregate, stream(aggregate, pieces, slacks))
    assert_same(found, oracle(rows, keys, window, functions))


quick = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=100)


def test_every_function_has_an_oracle() -> None:
    assert SQL.keys() == PARTIALS_OF.keys()


@quick
@given(cases(list(POOLS)))
def test_any_stream_gives_the_batch_answer(case: tuple) -> None:
    run(case, functions_for(case[0].schema.field("v").type))


@quick
@given(st.data())
def test_not_a_number_and_infinity(data: st.DataObject) -> None:
    # DuckDB refuses the variance of such values, so it is left out.
    rows, *rest = data.draw(cases([pa.float64()]))
    special = st.sampled_from([None, math.nan, math.inf, -math.inf, 1.0])
    values = pa.array(data.draw(st.lists(special, min_size=rows.num_rows, max_size=rows.num_rows)), pa.float64())
    keys, window, pieces, slacks, bits = rest
    ends = np.cumsum([p.num_rows for p in pieces]).tolist()
    rows = rows.set_column(rows.schema.get_field_index("v"), "v", values)
    pieces = [rows.slice(end - p.num_rows, p.num_rows) for p, end in zip(pieces, ends, strict=True)]
    wanted = ["count", "sum", "avg", "min", "max", "count_distinct", "first", "last"]
    run((rows, keys, window, pieces, slacks, bits), wanted)


@pytest.mark.parametrize("bits", [64, 8, 0])
@pytest.mark.parametrize("window", [Window("ts", 600, 600), Window("ts", 600, 60, 7), Window("ts", 60, 90)])
def test_many_rows(window: Window, bits: int) -> None:
    random = np.random.default_rng(7)
    times = np.sort(random.integers(-3000, 3000, 3000)) + random.integers(0, 40, 3000)
    rows = pa.table(
        {
            "k0": pa.array(random.integers(0, 300, 3000)).cast(pa.string()),
            "ts": pa.array(times),
            "v": pa.array(random.normal(10, 3, 3000), mask=random.random(3000) < 0.1),
        }
    )
    pieces = [rows.slice(i, 500) for i in range(0, 3000, 500)]
    run((rows, ["k0"], window, pieces, [0] * 6, bits), functions_for(pa.float64()))
