"""Run the branches of a producer: each table of rows goes through the stateless steps of all of them, to the sink or to
later subqueries. Rows for a subquery are collected in the form in which they are sent.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.engine.task.exchange.deliver import (
    LateFor,
    are_scattered,
    blobs_for_sites,
    together,
    travelling,
    writer_for,
)
from penstock.engine.wire.blob import Header
from penstock.engine.wire.job import EpochJob, Message
from penstock.errors import QueryError, SourceError
from penstock.expr.evaluate.scalar import evaluate, keep
from penstock.expr.text import text
from penstock.expr.tree import Column, Expr, Named
from penstock.expr.walk import columns_of
from penstock.operators.protocol import ClosingOperator, Orderable
from penstock.operators.window.lateness import RowCloses, missed, with_closed_windows
from penstock.operators.window.windows import Window
from penstock.plan.program import (
    PLACE,
    AssignWindowsStep,
    Branch,
    FilterStep,
    MapBatchesStep,
    ProjectStep,
    SplitStep,
    Step,
    Subquery,
)
from penstock.plan.schema import WINDOW_END, WINDOW_START
from penstock.progress.mark import BEGIN, Mark
from penstock.state.hash_ranges import SiteOrder
from penstock.state.model import Staged
from penstock.storage.durable import Sync, sync_file
from penstock.types import conform, time_array, time_values
from penstock.user_code import describe_error

_ROWS = 1 << 20  # about the most rows that one run of the steps yields, and the rows that are combined at once
_Steps = Sequence[Step]


class Branches:
    """The outputs of one producer. Rows for the sink are written at once, so memory is bounded by one table; rows for a
    subquery are combined from time to time if its operator can combine them."""

    def __init__(self, job: EpochJob, branches: Sequence[Branch], producer: str, sync: Sync = sync_file) -> None:
        self._job, self._branches = job, branches
        self._writer = writer_for(job, "results", producer, job.program.result_schema, sync)
        self._travelling: list[list[pa.Table]] = [[] for _ in branches]
        self._waiting = [0] * len(branches)  # rows that have not been combined yet
        self._copies = max(map(_copies, branches), default=1)
        self._orders = [None if branch.target is None else self._order_of(branch) for branch in branches]

    @property
    def rows_out(self) -> int:
        """Return the number of rows written to the sink."""
        return self._writer.rows

    def take(self, rows: pa.Table) -> None:
        """Run all branches on the rows, in slices whose results have at most about `_ROWS` rows."""
        if not rows.num_rows:
            return
        step = rows.num_rows if self._copies == 1 else max(1, _ROWS // self._copies)
        for start in range(0, rows.num_rows, step):
            self._take(rows.slice(start, step))

    def _take(self, rows: pa.Table) -> None:
        results = run_branches(rows, self._branches)
        for number, (branch, result) in enumerate(zip(self._branches, results, strict=True)):
            if not result.num_rows:
                continue
            if branch.target is None:
                self._writer.write(result)
            else:
                self._gather(number, branch, result)

    def _gather(self, number: int, branch: Branch, result: pa.Table) -> None:
        """Collect a result for a subquery. Combine the collected ones once enough rows are uncombined."""
        gathered, subquery, order = self._travelling[number], self._subquery(branch), self._orders[number]
        gathered.append(travelling(subquery, branch.port, result, order))
        self._waiting[number] += gathered[-1].num_rows
        reduces = not subquery.takes_rows and isinstance(subquery.operator, ClosingOperator)
        if reduces and self._waiting[number] > _ROWS + gathered[0].num_rows:
            gathered[:] = [together(subquery, branch.port, gathered, order)]
            self._waiting[number] = 0

    def take_behind(self, rows: pa.Table, late_below: Mark) -> list[LateFor]:
        """Run all branches on rows behind the punctuation, keep the rows that are not late, and return those that are
        late, by target."""
        found: list[LateFor] = []
        step = max(1, _ROWS // self._copies)
        for start in range(0, rows.num_rows, step):
            for number, branch in enumerate(self._branches):
                taken, late = judged(rows.slice(start, step), branch, late_below)
                found.append(late)
                if taken is not None and taken.num_rows:
                    self._gather(number, branch, taken)
        return found

    def staged(self) -> tuple[Staged, ...]:
        """Finish the file for the sink and return it; nothing if no rows were written."""
        file = self._writer.finish("results")
        return (file,) if file else ()

    def messages(self, header: Header) -> Iterator[Message]:
        """Yield one blob for every site of every subquery that is fed, even without rows. Each blob carries only the
        punctuation that its consumer follows."""
        for number, (branch, order) in enumerate(zip(self._branches, self._orders, strict=True)):
            if branch.target is not None:
                subquery, tables = self._subquery(branch), self._travelling[number]
                rows = together(subquery, branch.port, tables, order) if tables else None
                marks = branch.followed(header.marks) if header.marks else ()
                of_branch = replace(header, branch=number, port=branch.port, marks=marks)
                yield from blobs_for_sites(rows, self._job.directories[branch.target], subquery, of_branch, order)

    def _subquery(self, branch: Branch) -> Subquery:
        assert branch.target is not None, "a branch to the sink feeds no subquery"
        return self._job.program.subqueries[branch.target]

    def _order_of(self, branch: Branch) -> SiteOrder | None:
        """Return the order of sites in which to send rows if groups are scattered and the operator supports it at no
        extra cost; None: order of hash."""
        subquery = self._subquery(branch)
        directory = self._job.directories[subquery.number]
        free = isinstance(subquery.operator, Orderable) and not subquery.takes_rows
        return directory.site_order if free and are_scattered(directory) else None


def _copies(branch: Branch) -> int:
    """Return the largest number of result rows that the steps of a branch make of one row."""
    return math.prod(step.window.per_row for step in branch.steps if isinstance(step, AssignWindowsStep))


def judged(behind: pa.Table, branch: Branch, late_below: Mark) -> tuple[pa.Table | None, LateFor]:
    """Split rows behind the punctuation into those that the target of a branch still takes (None: none), after the
    steps of the branch, and those that are late for it."""
    if isinstance(branch.closing, RowCloses):
        return None, LateFor(branch.target, behind.column(PLACE).to_numpy())
    rows, mark = run_steps(behind, tuple(map(_with_place, branch.steps))), branch.tracks[0].mark((late_below, BEGIN))
    found = missed(branch.closing, rows, mark)
    some, places = found.windows > 0, rows.column(PLACE).to_numpy()
    first, last = (None if borders is None else borders[some] for borders in (found.first, found.last))
    rows = with_closed_windows(branch.closing, rows.drop_columns(PLACE), found, mark)
    return rows.filter(pa.array(~found.late)), LateFor(branch.target, places[some], first, last)


def _with_place(step: Step) -> Step:
    """Return the step changed so that it keeps the column PLACE."""
    return ProjectStep((*step.columns, Named(PLACE, Column(PLACE)))) if isinstance(step, ProjectStep) else step


def run_steps(rows: pa.Table, steps: _Steps) -> pa.Table:
    """Return the rows after all steps."""
    for step in steps:
        rows = _run(rows, step)
    return rows


def run_branches(rows: pa.Table, branches: Sequence[Branch]) -> list[pa.Table]:
    """Return the result of each branch. Leading steps that several branches share run once."""
    if len(branches) == 1:  # it shares no step
        return [run_steps(rows, branches[0].steps)]
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
    placed = rows.select(read).append_column(PLACE, pa.array(np.arange(rows.num_rows)))
    some = placed if len(places) == rows.num_rows else placed.take(places)
    return np.asarray(keep(some, predicate).column(PLACE).to_numpy())
