"""The windowed group-by: single facts. Whole streams are compared with DuckDB in test_aggregate_oracle."""

from __future__ import annotations

import pickle
import statistics
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from penstock.engine.task.site.storing import alive
from penstock.errors import EvaluationError, QueryError
from penstock.operators.aggregates.measures import PARTIALS_OF, Measure
from penstock.operators.window.aggregate import WindowAggregate
from penstock.operators.window.windows import Window
from penstock.plan.logical import AGGREGATES
from penstock.progress.mark import BEGIN, END, MAX_TIME, MIN_TIME, at
from penstock.state.runs import TIME

COUNT = Measure("n", "count", None)


def over(column: pa.Array, function: str, window: Window | None = None, times: list[int] | None = None) -> list:
    """The results of an aggregate without keys, over rows at the given times (all at zero unless told)."""
    rows = pa.table({"ts": pa.array(times or [0] * len(column), pa.int64()), "v": column})
    aggregate = WindowAggregate((), window or Window("ts", 10, 10), (Measure("m", function, "v"),), rows.schema)
    return aggregate.close(aggregate.prepare(0, rows), BEGIN, END)["m"].to_pylist()


def counting(window: Window, times: list[int]) -> tuple[WindowAggregate, pa.Table]:
    rows = pa.table({"k": pa.array(["a"] * len(times), pa.string()), "ts": pa.array(times, pa.int64())})
    aggregate = WindowAggregate(("k",), window, (COUNT,), rows.schema)
    return aggregate, aggregate.prepare(0, rows)


def counts(results: pa.Table) -> list[tuple[int, int]]:
    return list(zip(results["window_start"].to_pylist(), results["n"].to_pylist(), strict=True))


def test_the_plan_and_the_kernel_know_the_same_functions() -> None:
    assert set(AGGREGATES) == set(PARTIALS_OF)


def test_schemas() -> None:
    schema = pa.schema([("k", pa.string()), ("ts", pa.timestamp("us")), ("v", pa.decimal128(9, 2))])
    measures = (Measure("total", "sum", "v"), Measure("mean", "avg", "v"), COUNT)
    aggregate = WindowAggregate(("k",), Window("ts", 10, 10), measures, schema)
    assert aggregate.partial_schema.names == [
        "#hash", "#time", "key.0", "sum.upper(v)", "sum.lower(v)", "count.values(v)", "count.rows(*)",
    ]  # fmt: skip
    assert aggregate.result_schema == pa.schema(
        [
            ("k", pa.string()),
            ("window_start", pa.timestamp("us")),
            ("window_end", pa.timestamp("us")),
            ("total", pa.decimal128(38, 2)),
            ("mean", pa.float64()),
            ("n", pa.int64()),
        ]
    )


def test_it_travels() -> None:
    aggregate, partials = counting(Window("ts", 10, 5), [1, 2, 7])
    copy = pickle.loads(pickle.dumps(aggregate))
    assert copy == aggregate
    assert copy.close(partials, BEGIN, END) == aggregate.close(partials, BEGIN, END)


def test_rows_of_a_pane_become_one_row() -> None:
    _, partials = counting(Window("ts", 10, 5), [0, 1, 4, 5, -1])
    assert partials[TIME].to_pylist() == [-5, 0, 5]
    assert partials["count.rows(*)"].to_pylist() == [1, 3, 1]


def test_close_takes_the_windows_between_two_marks() -> None:
    aggregate, partials = counting(Window("ts", 10, 5), [0, 7])
    assert counts(aggregate.close(partials, BEGIN, END)) == [(-5, 1), (0, 2), (5, 1)]
    assert counts(aggregate.close(partials, BEGIN, at(4))) == []
    assert counts(aggregate.close(partials, BEGIN, at(5))) == [(-5, 1)]
    assert counts(aggregate.close(partials, at(4), at(10))) == [(-5, 1), (0, 2)]
    assert counts(aggregate.close(partials, at(5), at(14))) == [(0, 2)]
    assert counts(aggregate.close(partials, at(10), END)) == [(5, 1)]
    assert counts(aggregate.close(partials, at(15), END)) == []
    assert counts(aggregate.close(partials, END, END)) == []
    assert counts(aggregate.close(partials, at(9), at(9))) == []


def test_a_window_without_rows_has_no_result() -> None:
    aggregate, partials = counting(Window("ts", 10, 5), [0, 100])
    assert counts(aggregate.close(partials, BEGIN, END)) == [(-5, 1), (0, 1), (95, 1), (100, 1)]


def test_rows_in_no_window_are_dropped() -> None:
    aggregate, partials = counting(Window("ts", 4, 10, 1), [1, 4, 5, 10, 11, -6, -5])
    assert counts(aggregate.close(partials, BEGIN, END)) == [(-9, 1), (1, 2), (11, 1)]
    assert counting(Window("ts", 4, 10, 1), [5, 10])[1].num_rows == 0


def test_nothing_in_nothing_out() -> None:
    aggregate, partials = counting(Window("ts", 10, 5), [])
    for table in (partials, aggregate.combine(0, []), aggregate.combine(0, [partials, partials])):
        assert table.schema == aggregate.partial_schema
        assert table.num_rows == 0
    assert aggregate.close(partials, BEGIN, END) == aggregate.result_schema.empty_table()
    assert alive(partials, aggregate.expired_below(0, (END,))).num_rows == 0


@pytest.mark.parametrize("window", [Window("ts", 7, 7, 3), Window("ts", 10, 4, 3), Window("ts", 4, 10, 9)])
def test_the_limits_of_time(window: Window) -> None:
    first = window.first_start_ending_after(window.earliest + window.slide)
    last = window.last_start_at_or_before(window.latest)
    times = [
        t for t in (window.earliest, first, last, window.latest) if (t - window.offset) % window.slide < window.size
    ]
    aggregate, partials = counting(window, times)
    expected: dict[int, int] = {}
    for time in times:
        start = window.last_start_at_or_before(time)
        while start + window.size > time:
            expected[start] = expected.get(start, 0) + 1
            start -= window.slide
    assert dict(counts(aggregate.close(partials, BEGIN, END))) == expected
    assert counts(aggregate.close(partials, BEGIN, at(MIN_TIME))) == []
    assert counts(aggregate.close(partials, at(MAX_TIME), END)) == []
    assert alive(partials, aggregate.expired_below(0, (at(MIN_TIME),))) is partials
    assert alive(partials, aggregate.expired_below(0, (END,))).num_rows == 0


def test_marks() -> None:
    aggregate, _ = counting(Window("ts", 10, 5), [])
    assert aggregate.output_marks((at(14),))[0] == at(5)
    assert aggregate.output_marks((at(15),))[0] == at(10)
    assert aggregate.output_marks((BEGIN,))[0] == BEGIN
    assert aggregate.output_marks((END,))[0] == END
    assert [aggregate.expired_below(0, (m,)) for m in (at(14), at(15), BEGIN, END)] == [5, 10, MIN_TIME, MAX_TIME]


def test_alive_copies_only_what_it_must() -> None:
    aggregate, partials = counting(Window("ts", 10, 5), [0, 7, 12])
    assert alive(partials, aggregate.expired_below(0, (at(9),))) is partials
    assert alive(partials, aggregate.expired_below(0, (at(10),)))[TIME].to_pylist() == [5, 10]


def test_combine_of_one_table_copies_nothing() -> None:
    aggregate, partials = counting(Window("ts", 10, 5), [0, 7, 12])
    assert aggregate.combine(0, [partials, partials.slice(0, 0)]) is partials


def test_zeros_and_nans_are_one_key() -> None:
    rows = pa.table({"k": [-0.0, 0.0, float("nan"), -float("nan"), None], "ts": pa.array([0] * 5, pa.int64())})
    aggregate = WindowAggregate(("k",), Window("ts", 1, 1), (COUNT,), rows.schema)
    results = aggregate.close(aggregate.prepare(0, rows), BEGIN, END)
    assert sorted((str(r["k"]), r["n"]) for r in results.to_pylist()) == [("0.0", 2), ("None", 1), ("nan", 2)]


def test_a_sum_overflows_only_as_a_whole() -> None:
    big = 2**63 - 1
    assert over(pa.array([big, big, -big, -big, 5]), "sum") == [5]
    assert over(pa.array([-big, -1]), "sum") == [-(2**63)]
    for column in (pa.array([big, 1]), pa.array([-big, -2]), pa.array([big] * 1000)):
        with pytest.raises(EvaluationError, match="overflows"):
            over(column, "sum")
    assert over(pa.array([big] * 4), "avg") == [float(big)]


def test_a_part_of_a_sum_may_be_wider_than_64_bits() -> None:
    rows = pa.table({"ts": pa.array([0, 0, 0, 0, 0], pa.int64()), "v": pa.array([2**63 - 1] * 3 + [-(2**63)] * 2)})
    aggregate = WindowAggregate((), Window("ts", 10, 10), (Measure("m", "sum", "v"),), rows.schema)
    parts = [aggregate.prepare(0, rows.slice(0, 3)), aggregate.prepare(0, rows.slice(3))]
    assert aggregate.close(aggregate.combine(0, parts), BEGIN, END)["m"].to_pylist() == [2**63 - 3]


def test_decimal_sums_are_wider_than_64_bits() -> None:
    largest = Decimal("9999999999999999.99")
    column = pa.array([largest] * 1000 + [None], pa.decimal128(18, 2))
    assert over(column, "sum") == [largest * 1000]
    assert over(pa.array([-largest] * 1000, pa.decimal128(18, 2)), "sum") == [-largest * 1000]


def test_variance_far_from_zero() -> None:
    values = [1e9 + i % 7 for i in range(500)]
    exact = float(statistics.pvariance([Fraction(v) for v in values]))
    times = [i % 60 for i in range(500)]
    for window in (Window("ts", 60, 60), Window("ts", 60, 1)):
        found = over(pa.array(values), "var_pop", window, times)
        assert found[len(found) // 2] == pytest.approx(exact, rel=1e-9)
    assert over(pa.array([0.1] * 3), "stddev") == [0.0]
    assert over(pa.array([0.1]), "variance") == [None]


def test_overlapping_windows_are_spelled_out_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    values, times = pa.array(np.random.default_rng(1).normal(size=200)), list(range(200))
    whole = over(values, "stddev", Window("ts", 20, 1), times)
    monkeypatch.setattr("penstock.kernels.segments._BLOCK", 50)
    assert over(values, "stddev", Window("ts", 20, 1), times) == whole


def test_first_and_last_break_ties_by_value() -> None:
    values, times = pa.array(["b", "a", None, "c", "d", None]), [1, 1, 0, 2, 2, 3]
    assert over(values, "first", times=times) == ["a"]
    assert over(values, "last", times=times) == ["d"]


def test_first_of_values_too_wide_to_pack() -> None:
    values = pa.array([2**63 - 1, -(2**63), 7])
    times = [2**60, 2**60, -(2**60)]
    window = Window("ts", 2**62, 2**62, 2**61)
    assert over(values, "first", window, times) == [7]
    assert over(values, "last", window, times) == [2**63 - 1]


def refused(keys: tuple[str, ...], *measures: Measure, time: str = "ts") -> QueryError:
    schema = pa.schema(
        [
            ("k", pa.string()),
            ("ts", pa.int64()),
            ("l", pa.list_(pa.int64())),
            ("wide", pa.decimal128(30, 2)),
            ("flag", pa.bool_()),
        ]
    )
    with pytest.raises(QueryError) as error:
        WindowAggregate(keys, Window(time, 1, 1), measures, schema)
    assert error.value.hint
    return error.value


def test_what_cannot_be_done_is_refused() -> None:
    assert "did you mean `sum`" in str(refused((), Measure("m", "sums", "ts")))
    assert "`sum` cannot be applied to `k`" in str(refused((), Measure("m", "sum", "k")))
    assert "`avg` cannot be applied to `flag`" in str(refused((), Measure("m", "avg", "flag")))
    assert "cast it to DECIMAL(18, 2)" in str(refused((), Measure("m", "sum", "wide")))
    assert "`min` cannot be applied to `l`" in str(refused((), Measure("m", "min", "l")))
    assert "`max` needs a column" in str(refused((), Measure("m", "max", None)))
    assert "unknown column `x`" in str(refused((), Measure("m", "max", "x")))
    assert "column `l` cannot be a key" in str(refused(("l",)))
    assert "unknown column `kk`" in str(refused(("kk",)))
    assert "two columns of the result are called `window_end`" in str(refused((), Measure("window_end", "count", None)))
    assert "a window cannot be over `k`" in str(refused((), time="k"))
