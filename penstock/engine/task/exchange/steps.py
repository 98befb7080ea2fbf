"""Run stateless steps over a table: those of one branch, or of all branches of a producer at once."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import QueryError, SourceError
from penstock.expr.evaluate.scalar import evaluate, keep
from penstock.expr.text import text
from penstock.expr.tree import Expr
from penstock.expr.walk import columns_of
from penstock.operators.window.windows import Window
from penstock.plan.program import AssignWindowsStep, Branch, FilterStep, MapBatchesStep, ProjectStep, SplitStep, Step
from penstock.plan.schema import WINDOW_END, WINDOW_START
from penstock.types import conform, time_array, time_values
from penstock.user_code import describe_error

_Steps = Sequence[Step]
_PLACE = "#place"


def run_steps(rows: pa.Table, steps: _Steps) -> pa.Table:
    """Return the rows after all steps."""
    for step in steps:
        rows = _run(rows, step)
    return rows


def run_branches(rows: pa.Table, branches: Sequence[Branch]) -> list[pa.Table]:
    """Return the result of each branch. Leading steps that several branches share run once."""
    results = dict(_run_all(rows, [(number, branch.steps) for number, branch in enumerate(branches)]))
    return [results[number] for number in range(len(branches))]


def _run(rows: pa.Table, step: Step) -> pa.Table:
    match step:
        case FilterStep(predicate):
            return keep(rows, predicate)
        case SplitStep(predicates, output):
            return _of_output(rows, outputs_of(rows, predicates), output)
        case ProjectStep(columns):
            return evaluate(rows, columns)
        case AssignWindowsStep(window):
            return assign(rows, window)
        case MapBatchesStep():
            return apply(rows, step)
        case _:
            assert_never(step)


def _run_all(rows: pa.Table, numbered: Sequence[tuple[int, _Steps]]) -> Iterator[tuple[int, pa.Table]]:
    """Yield (number, result) for each numbered sequence of steps."""
    yield from ((number, rows) for number, steps in numbered if not steps)
    divided: dict[Hashable, npt.NDArray[np.int64]] = {}
    for alike in _by_first_step(numbered):
        step = alike[0][1][0]
        rest = [(number, steps[1:]) for number, steps in alike]
        yield from _run_all(_run_shared(rows, step, divided), rest)


def _run_shared(rows: pa.Table, step: Step, divided: dict[Hashable, npt.NDArray[np.int64]]) -> pa.Table:
    """Run one step like `_run`, but evaluate the predicates of a division once for all of its outputs."""
    if not isinstance(step, SplitStep):
        return _run(rows, step)
    predicates = tuple(map(text, step.predicates))
    if predicates not in divided:
        divided[predicates] = outputs_of(rows, step.predicates)
    return _of_output(rows, divided[predicates], step.output)


def _of_output(rows: pa.Table, outputs: npt.NDArray[np.int64], output: int) -> pa.Table:
    return rows.filter(pa.array(outputs == output))


def _by_first_step(numbered: Sequence[tuple[int, _Steps]]) -> list[list[tuple[int, _Steps]]]:
    """Group step sequences by their first step, leaving empty ones out."""
    groups: dict[Hashable, list[tuple[int, _Steps]]] = {}
    for number, steps in numbered:
        if steps:
            groups.setdefault(_meaning(steps[0]), []).append((number, steps))
    return list(groups.values())


def _meaning(step: Step) -> Hashable:
    """Return a key that is equal for steps that do the same. Expressions are compared as text because Literal(1) ==
    Literal(True); functions by identity because they need not be hashable."""
    match step:
        case FilterStep(predicate):
            return FilterStep, text(predicate)
        case SplitStep(predicates, output):
            return SplitStep, tuple(map(text, predicates)), output
        case ProjectStep(columns):
            return ProjectStep, tuple((named.name, text(named.expression)) for named in columns)
        case MapBatchesStep(function, schema, times):
            return MapBatchesStep, function.name, id(function.call), schema, times
        case _:
            return step


def apply(rows: pa.Table, step: MapBatchesStep) -> pa.Table:
    """Return the function's result for the rows, cast to the declared types. The function is not called without
    rows."""
    if not rows.num_rows:
        return step.schema.empty_table()
    given = _conforming(_called(rows, step), step)
    if step.times is not None:
        _check_times(rows, given, step.function.name, *step.times)
    return given


def _called(rows: pa.Table, step: MapBatchesStep) -> pa.Table:
    try:
        given: Any = step.function.call(rows)
    except Exception as error:
        raise QueryError(
            f"the function `{step.function.name}` failed",
            detail=describe_error(error),
            hint=f"it was given {rows.num_rows} rows of {', '.join(rows.column_names)}",
        ) from error
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given])
    if not isinstance(given, pa.Table):
        raise QueryError(
            f"the function `{step.function.name}` gave no table",
            detail=f"it gave a {type(given).__name__}",
            hint="return a pyarrow.Table",
        )
    return given


def _conforming(given: pa.Table, step: MapBatchesStep) -> pa.Table:
    what = f"the function `{step.function.name}` gave a table that does not fit its declared columns"
    if twice := sorted({name for name in step.schema.names if given.column_names.count(name) > 1}):
        raise QueryError(what, detail=f"it has several columns called `{twice[0]}`", hint="return each once")
    try:
        return conform(given, step.schema, f"the result of `{step.function.name}`")
    except SourceError as error:
        detail = f"{error.what}: {error.detail}" if error.detail else error.what
        raise QueryError(what, detail=detail, hint=error.hint) from error


def _check_times(rows: pa.Table, given: pa.Table, function: str, before: str, after: str) -> None:
    """Raise an error if a time is null or earlier than all input times: later steps rely on the punctuation."""
    times = given.column(after)
    if times.null_count:
        raise QueryError(
            f"the function `{function}` gave a row without a time",
            detail=f"`{after}` is null in {times.null_count} of {given.num_rows} rows",
            hint="leave such rows out, or declare that the result has no time",
        )
    least = time_values(rows.column(before)).min()
    if given.num_rows and (earlier := time_values(times).min()) < least:
        raise QueryError(
            f"the function `{function}` made times earlier",
            detail=f"the least `{before}` it was given is {least}, the least `{after}` it gave is {earlier}",
            hint="keep the times as they are, or declare that the result has no time",
        )


def assign(rows: pa.Table, window: Window) -> pa.Table:
    """Return the rows with the borders of their windows appended as columns: one copy per window that contains the row.
    A row in a gap between windows is dropped."""
    times = time_values(rows.column(window.time))
    into = (times - window.offset) % window.slide  # distance from the start of the newest window
    counts = np.maximum(-((into - window.size) // window.slide), 0)
    starts = times - into
    if not np.all(counts == 1):
        copies = np.repeat(np.arange(len(times)), counts)
        back = np.arange(len(copies)) - np.repeat(np.cumsum(counts) - counts, counts)
        rows, starts = rows.take(copies), starts[copies] - back * window.slide
    type_ = rows.schema.field(window.time).type
    rows = rows.append_column(WINDOW_START, time_array(starts, type_))
    return rows.append_column(WINDOW_END, time_array(starts + window.size, type_))


def outputs_of(rows: pa.Table, predicates: Sequence[Expr]) -> npt.NDArray[np.int64]:
    """Return the output of each row: the number of the first predicate that is true for it, or len(predicates). A
    predicate is evaluated only on rows that no predicate before it took."""
    outputs = np.full(rows.num_rows, len(predicates), dtype=np.int64)
    left = np.arange(rows.num_rows)
    for output, predicate in enumerate(predicates):
        taken = _taken(rows, left, predicate)
        outputs[taken] = output
        left = left[outputs[left] == len(predicates)]
    return outputs


def _taken(rows: pa.Table, places: npt.NDArray[np.int64], predicate: Expr) -> npt.NDArray[np.int64]:
    """Return those of the given places whose rows satisfy the predicate."""
    read = list(dict.fromkeys(columns_of(predicate)))
    placed = rows.select(read).append_column(_PLACE, pa.array(np.arange(rows.num_rows)))
    some = placed if len(places) == rows.num_rows else placed.take(places)
    return np.asarray(keep(some, predicate).column(_PLACE).to_numpy())
