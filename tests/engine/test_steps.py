"""Stateless steps, one by one and shared between branches."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from penstock.engine.task.exchange import branches as branches_module
from penstock.engine.task.exchange.branches import run_branches, run_steps
from penstock.errors import EvaluationError, QueryError
from penstock.expr.tree import Call, Cast, Column, Literal, Named
from penstock.operators.window.windows import Window
from penstock.plan.logical import BatchFunction
from penstock.plan.program import (
    AssignWindowsStep,
    Branch,
    FilterStep,
    MapBatchesStep,
    ProjectStep,
    SplitStep,
    Step,
)
from penstock.progress.mark import MAX_TIME, MIN_TIME

ROWS = pa.table({"ts": [1, 2, 3, 4, 5], "v": [10, None, 30, 40, 0]})


def less(name: str, value: int) -> Call:
    return Call("<", (Column(name), Literal(value)))


def branch(*steps: Step) -> Branch:
    return Branch(steps, None)


def times(rows: pa.Table) -> list[Any]:
    return rows.column("ts").to_pylist()


def test_steps_follow_each_other() -> None:
    double = ProjectStep((Named("w", Call("*", (Column("v"), Literal(2)))),))
    assert run_steps(ROWS, (FilterStep(less("v", 40)), double)).to_pydict() == {"w": [20, 60, 0]}
    assert run_steps(ROWS, ()) is ROWS


# Divide


def test_the_first_predicate_that_holds_takes_a_row() -> None:
    predicates = (less("v", 20), less("v", 35))
    outputs = [times(run_steps(ROWS, (SplitStep(predicates, output),))) for output in range(3)]
    assert outputs == [[1, 5], [3], [2, 4]]


def test_a_predicate_does_not_see_rows_that_are_taken() -> None:
    rows = pa.table({"ts": [1, 2], "v": ["x", "7"]})
    guard, failing = Call("=", (Column("v"), Literal("x"))), Call("<", (Cast(Column("v"), "BIGINT"), Literal(10)))
    assert [times(run_steps(rows, (SplitStep((guard, failing), output),))) for output in range(3)] == [[1], [2], []]
    with pytest.raises(EvaluationError, match="failed on the data"):
        run_steps(rows, (SplitStep((failing, guard), 0),))


def test_a_predicate_without_columns() -> None:
    assert times(run_steps(ROWS, (SplitStep((Literal(True),), 0),))) == times(ROWS)
    assert times(run_steps(ROWS, (SplitStep((less("v", 20), Literal(True)), 1),))) == [2, 3, 4]
    assert times(run_steps(ROWS, (SplitStep((), 0),))) == times(ROWS)


# Assign


def in_windows(t: int, window: Window) -> set[int]:
    """The starts of all windows that hold a time, by trying every one around it."""
    first = (t - window.size) // window.slide - 1
    starts = (n * window.slide + window.offset for n in range(first, t // window.slide + 2))
    return {start for start in starts if start <= t < start + window.size}


def test_every_row_once_per_window(random: Random) -> None:
    for _ in range(60):
        window = Window("ts", random.randint(1, 12), random.randint(1, 12), random.randint(0, 20))
        rows = pa.table({"ts": pa.array([random.randint(-30, 30) for _ in range(20)], pa.int64()), "n": range(20)})
        found = run_steps(rows, (AssignWindowsStep(window),))
        assert found.column_names == ["ts", "n", "window_start", "window_end"]
        expected = [(n, s) for n, t in enumerate(times(rows)) for s in in_windows(t, window)]
        assert sorted(zip(*found.select(["n", "window_start"]).to_pydict().values(), strict=True)) == sorted(expected)
        ends = [start + window.size for start in found.column("window_start").to_pylist()]
        assert found.column("window_end").to_pylist() == ends


def test_the_borders_have_the_type_of_the_time() -> None:
    rows = pa.table({"ts": pa.array([datetime(1969, 12, 31, 23, 59, 59)], pa.timestamp("us"))})
    found = run_steps(rows, (AssignWindowsStep(Window("ts", 60_000_000, 60_000_000)),))
    assert found.schema.types == [pa.timestamp("us")] * 3
    assert found.to_pylist()[0]["window_start"] == datetime(1969, 12, 31, 23, 59)
    assert found.to_pylist()[0]["window_end"] == datetime(1970, 1, 1)


@pytest.mark.parametrize("offset", [0, 3, 6])
def test_windows_at_the_limits_of_time(offset: int) -> None:
    window = Window("ts", 10, 7, offset)
    rows = pa.table({"ts": pa.array([window.earliest, window.latest], pa.int64())})
    found = run_steps(rows, (AssignWindowsStep(window),)).to_pylist()
    assert {(row["ts"], row["window_start"]) for row in found} == {
        (t, start) for t in (window.earliest, window.latest) for start in in_windows(t, window)
    }
    assert all(MIN_TIME <= row["window_start"] < row["window_end"] <= MAX_TIME for row in found)


def test_no_rows_in_no_windows() -> None:
    found = run_steps(ROWS.slice(0, 0), (AssignWindowsStep(Window("ts", 5, 2)),))
    assert (found.num_rows, found.num_columns) == (0, 4)


# Apply

TIMED = pa.schema([("ts", pa.int64()), ("w", pa.float64())])


def applied(
    call: Callable[[pa.Table], Any], times: tuple[str, str] | None = ("ts", "ts"), rows: pa.Table = ROWS
) -> Any:
    return run_steps(rows, (MapBatchesStep(BatchFunction("score", call), TIMED, times),))


def with_times(*values: int | None) -> pa.Table:
    return pa.table({"ts": pa.array(values, pa.int64()), "w": pa.array([0.5] * len(values), pa.float64())})


def test_a_function_gives_rows_in_the_declared_types() -> None:
    found = applied(lambda rows: pa.table({"more": rows["v"], "w": rows["ts"], "ts": rows["ts"]}))
    assert found.schema.equals(TIMED)
    assert found.column("w").to_pylist() == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_a_function_may_give_a_batch_or_nothing() -> None:
    assert times(applied(lambda rows: with_times(7).to_batches()[0])) == [7]
    assert applied(lambda rows: with_times()).num_rows == 0


def test_a_function_is_not_asked_about_no_rows() -> None:
    found = applied(lambda rows: 1 / 0, rows=ROWS.slice(0, 0))
    assert found.equals(TIMED.empty_table())


@pytest.mark.parametrize(
    ("call", "what", "detail"),
    [
        (lambda rows: {}["no"], "the function `score` failed", "KeyError: 'no'"),
        (lambda rows: [1], "the function `score` gave no table", "it gave a list"),
        (lambda rows: rows, "does not fit its declared columns", "column `w` is missing"),
        (lambda rows: with_times(1).set_column(1, "w", pa.array(["x"])), "does not fit its declared", "declared type"),
        (lambda rows: with_times(1).append_column("w", pa.array([1.0])), "does not fit", "several columns called `w`"),
        (lambda rows: with_times(0, 9), "the function `score` made times earlier", "is 1, the least `ts` it gave is 0"),
        (lambda rows: with_times(5, None), "gave a row without a time", "null in 1 of 2 rows"),
    ],
)
def test_what_a_function_must_not_do(call: Callable[[pa.Table], Any], what: str, detail: str) -> None:
    with pytest.raises(QueryError) as caught:
        applied(call)
    assert what in caught.value.what
    assert "`score`" in caught.value.what
    assert detail in caught.value.detail


def test_without_a_time_the_times_are_free() -> None:
    assert times(applied(lambda rows: with_times(-5, None), times=None)) == [-5, None]


def test_a_time_may_change_its_name() -> None:
    schema = pa.schema([("later", pa.int64())])
    step = MapBatchesStep(BatchFunction("f", lambda rows: pa.table({"later": rows["ts"]})), schema, ("ts", "later"))
    assert run_steps(ROWS, (step,)).to_pydict() == {"later": [1, 2, 3, 4, 5]}


# Branches


class Counting:
    """A function that counts its calls. Equal to every other, and therefore not hashable."""

    def __init__(self) -> None:
        self.calls = 0

    def __eq__(self, other: object) -> bool:
        return True

    def __call__(self, rows: pa.Table) -> pa.Table:
        self.calls += 1
        return rows


def counted(function: Counting) -> MapBatchesStep:
    return MapBatchesStep(BatchFunction("count", function), ROWS.schema, ("ts", "ts"))


def test_common_steps_run_once() -> None:
    first, second = Counting(), Counting()
    results = run_branches(
        ROWS,
        [
            branch(counted(first), FilterStep(less("v", 20))),
            branch(counted(first), FilterStep(less("v", 20)), counted(second)),
            branch(counted(first)),
            branch(),
            branch(FilterStep(less("v", 20)), counted(first)),
            branch(FilterStep(less("v", 20)), counted(first)),
        ],
    )
    assert [times(rows) for rows in results] == [[1, 5], [1, 5], times(ROWS), times(ROWS), [1, 5], [1, 5]]
    assert (first.calls, second.calls) == (2, 1)


def test_different_functions_of_one_name_are_not_mixed_up() -> None:
    first, second = Counting(), Counting()
    run_branches(ROWS, [branch(counted(first)), branch(counted(second))])
    assert (first.calls, second.calls) == (1, 1)


def test_a_division_is_made_once_for_all_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[object] = []
    outputs_of = branches_module.outputs_of
    monkeypatch.setattr(branches_module, "outputs_of", lambda rows, p: tried.append(p) or outputs_of(rows, p))
    predicates = (less("v", 20), less("v", 35))
    branches = [branch(SplitStep(predicates, output)) for output in (2, 0, 1, 0)]
    assert [times(rows) for rows in run_branches(ROWS, branches)] == [[2, 4], [1, 5], [3], [1, 5]]
    assert len(tried) == 1


def test_constants_that_python_takes_for_equal_are_not_mixed_up() -> None:
    constants = [ProjectStep((Named("c", Literal(value)),)) for value in (1, True, 1.0)]
    results = run_branches(ROWS, [branch(step) for step in constants])
    assert [rows.column("c")[0].as_py() for rows in results] == [1, True, 1.0]
    assert len({str(rows.schema.field("c").type) for rows in results}) == 3


def test_branches_give_what_each_gives_alone(random: Random) -> None:
    predicates = (less("v", 20), less("ts", 4))
    pool: list[Step] = [
        FilterStep(less("v", 35)),
        FilterStep(less("ts", 5)),
        *(SplitStep(predicates, output) for output in range(3)),
        ProjectStep((Named("ts", Column("ts")), Named("v", Call("+", (Column("v"), Literal(1)))))),
        counted(Counting()),
    ]
    for _ in range(20):
        branches = [branch(*random.choices(pool, k=random.randint(0, 4))) for _ in range(random.randint(1, 6))]
        together = run_branches(ROWS, branches)
        assert [t.to_pydict() for t in together] == [run_steps(ROWS, b.steps).to_pydict() for b in branches]
