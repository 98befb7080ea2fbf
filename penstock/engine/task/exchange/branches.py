"""The branches of a producer at work: each table of rows goes through all of them, to the sink or to later subqueries.

Rows for a subquery are gathered in the form in which they travel: as state rows, already pre-aggregated, or as they are
where the site wants to put them in order or number them first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from penstock.checkpoint.manifest import Staged
from penstock.engine.task.exchange.deliver import are_scattered, blobs_for_sites, writer_for
from penstock.engine.task.exchange.late_rows import LateFor
from penstock.engine.task.exchange.steps import run_branches, run_steps
from penstock.engine.wire.blob import Header
from penstock.engine.wire.job import EpochJob, Message
from penstock.expr.tree import Column, Named
from penstock.operators.arrange import merged
from penstock.operators.protocol import Orderable
from penstock.operators.window.lateness import RowCloses, missed, told
from penstock.plan.program import PLACE, SINK, Assign, Branch, Compute, Step, Subquery
from penstock.progress.mark import BEGIN, Mark
from penstock.state.site_order import SiteOrder
from penstock.storage.durable import Sync, sync_file

_ROWS = 1 << 20  # that steps may make of the rows they are given, and that wait to be put together, at least


class Branches:
    """Takes rows table by table. To the sink they go at once, so that memory stays bounded by a table; what can be put
    together on its way to a subquery is, from time to time."""

    def __init__(self, job: EpochJob, branches: Sequence[Branch], producer: str, sync: Sync = sync_file) -> None:
        self._job, self._branches = job, branches
        self._writer = writer_for(job, "results", producer, job.program.result_schema, sync)
        self._travelling: list[list[pa.Table]] = [[] for _ in branches]
        self._waiting = [0] * len(branches)  # rows that were not put together yet
        self._copies = max(map(_copies, branches), default=1)
        self._orders = [None if branch.target == SINK else self._order_of(branch) for branch in branches]

    @property
    def rows_out(self) -> int:
        """How many rows went to the sink."""
        return self._writer.rows

    def take(self, rows: pa.Table) -> None:
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
            if branch.target == SINK:
                self._writer.write(result)
            else:
                self._gather(number, branch, result)

    def _gather(self, number: int, branch: Branch, result: pa.Table) -> None:
        gathered, subquery, order = self._travelling[number], self._subquery(branch), self._orders[number]
        gathered.append(travelling(subquery, branch.port, result, order))
        self._waiting[number] += gathered[-1].num_rows
        reduces = not (subquery.takes_rows or subquery.operator.probes)
        if reduces and self._waiting[number] > _ROWS + gathered[0].num_rows:
            gathered[:] = [together(subquery, branch.port, gathered, order)]
            self._waiting[number] = 0

    def take_behind(self, rows: pa.Table, late_below: Mark) -> list[LateFor]:
        """Take what is not late of rows behind the punctuation; gives what was late for which target."""
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
        file = self._writer.finish("results")
        return (file,) if file else ()

    def messages(self, header: Header) -> Iterator[Message]:
        """A blob for every site of every subquery that is fed, also where there are no rows for it. A consumer is told
        the punctuation that it follows, and no other."""
        for number, (branch, order) in enumerate(zip(self._branches, self._orders, strict=True)):
            if branch.target != SINK:
                subquery, tables = self._subquery(branch), self._travelling[number]
                rows = together(subquery, branch.port, tables, order) if tables else None
                marks = branch.followed(header.marks) if header.marks else ()
                of_branch = replace(header, branch=number, port=branch.port, marks=marks)
                yield from blobs_for_sites(rows, self._job.directories[branch.target], subquery, of_branch, order)

    def _subquery(self, branch: Branch) -> Subquery:
        return self._job.program.subqueries[branch.target]

    def _order_of(self, branch: Branch) -> SiteOrder | None:
        """That of sites where groups are scattered and it costs next to nothing; None: that of hashes."""
        subquery, directory = self._subquery(branch), self._job.directories[branch.target]
        free = isinstance(subquery.operator, Orderable) and not subquery.takes_rows
        return directory.site_order if free and are_scattered(directory) else None


def _copies(branch: Branch) -> int:
    """How many rows may come of one."""
    return math.prod(step.window.per_row for step in branch.steps if isinstance(step, Assign))


def travelling(subquery: Subquery, port: int, rows: pa.Table, order: SiteOrder | None) -> pa.Table:
    """Rows in the form in which they travel to a subquery."""
    operator = subquery.operator
    if order is not None and isinstance(operator, Orderable):
        return operator.prepare_by(order.words, port, rows)
    return operator.arrange(port, rows) if subquery.takes_rows else operator.prepare(port, rows)


def together(subquery: Subquery, port: int, tables: Sequence[pa.Table], order: SiteOrder | None = None) -> pa.Table:
    """Several tables in that form as one."""
    operator = subquery.operator
    if order is not None and isinstance(operator, Orderable):
        return operator.combine_by(order.words, port, tables)
    return merged(tables, tables[0].schema) if subquery.takes_rows else operator.combine(port, tables)


def judged(behind: pa.Table, branch: Branch, late_below: Mark) -> tuple[pa.Table | None, LateFor]:
    """What the target of a branch takes of rows behind the punctuation (None: nothing), and what it has missed."""
    if isinstance(branch.closing, RowCloses):
        return None, LateFor(branch.target, behind.column(PLACE).to_numpy())
    rows, mark = run_steps(behind, tuple(map(_with_place, branch.steps))), branch.tracks[0].mark((late_below, BEGIN))
    found = missed(branch.closing, rows, mark)
    some, places = found.windows > 0, rows.column(PLACE).to_numpy()
    first, last = (None if borders is None else borders[some] for borders in (found.first, found.last))
    rows = told(branch.closing, rows.drop_columns(PLACE), found, mark)
    return rows.filter(pa.array(~found.late)), LateFor(branch.target, places[some], first, last)


def _with_place(step: Step) -> Step:
    """The same step, which passes places on."""
    return Compute((*step.columns, Named(PLACE, Column(PLACE)))) if isinstance(step, Compute) else step
