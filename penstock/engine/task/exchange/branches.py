"""Run the branches of a producer: each table of rows goes through all of them, to the sink or to later subqueries.

Rows for a subquery are collected in the form in which they are sent: as pre-aggregated state rows, or unchanged if the
site has to order or number them first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from penstock.engine.task.exchange.deliver import LateFor, are_scattered, blobs_for_sites, writer_for
from penstock.engine.task.exchange.steps import run_branches, run_steps
from penstock.engine.wire.blob import Header
from penstock.engine.wire.job import EpochJob, Message
from penstock.expr.tree import Column, Named
from penstock.operators.arrange import merged
from penstock.operators.protocol import ClosingOperator, Orderable
from penstock.operators.window.lateness import RowCloses, missed, with_closed_windows
from penstock.plan.program import PLACE, AssignWindowsStep, Branch, ProjectStep, Step, Subquery
from penstock.progress.mark import BEGIN, Mark
from penstock.state.hash_ranges import SiteOrder
from penstock.state.model import Staged
from penstock.storage.durable import Sync, sync_file

_ROWS = 1 << 20  # about the most rows that one run of the steps yields, and the rows that are combined at once


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
        """Collect a result for a subquery, and combine what has been collected when enough of it is not combined."""
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


def travelling(subquery: Subquery, port: int, rows: pa.Table, order: SiteOrder | None) -> pa.Table:
    """Return rows in the form in which they are sent to a port of a subquery."""
    operator = subquery.operator
    if order is not None and isinstance(operator, Orderable):
        return operator.prepare_by(order.words, port, rows)
    return operator.arrange(port, rows) if subquery.takes_rows else operator.prepare(port, rows)


def together(subquery: Subquery, port: int, tables: Sequence[pa.Table], order: SiteOrder | None = None) -> pa.Table:
    """Combine tables in the form in which they are sent into one table of that form."""
    operator = subquery.operator
    if order is not None and isinstance(operator, Orderable):
        return operator.combine_by(order.words, port, tables)
    return merged(tables, tables[0].schema) if subquery.takes_rows else operator.combine(port, tables)


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
