"""The branches of a producer at work: each table of rows goes through all of them, to the sink or to later subqueries.

Rows for a subquery are gathered in the form in which they travel: as state rows, already pre-aggregated, or as they are
where the site wants to put them in order or number them first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from penstock.checkpoint.durable import Sync, sync_file
from penstock.checkpoint.manifest import Staged
from penstock.engine.blob import Header
from penstock.engine.deliver import are_scattered, blobs_for_sites, writer_for
from penstock.engine.job import EpochJob, Message
from penstock.engine.judging import judged
from penstock.engine.late_rows import LateFor
from penstock.engine.steps import run_branches
from penstock.operators.arrange import merged
from penstock.operators.base import Orderable
from penstock.plan.program import SINK, Branch, Subquery
from penstock.progress.mark import Mark
from penstock.state.site_order import SiteOrder


class Branches:
    """Takes rows table by table. To the sink they go at once, so that memory stays bounded by a table."""

    def __init__(self, job: EpochJob, branches: Sequence[Branch], producer: str, sync: Sync = sync_file) -> None:
        self._job, self._branches = job, branches
        self._writer = writer_for(job, "results", producer, job.program.result_schema, sync)
        self._travelling: list[list[pa.Table]] = [[] for _ in branches]
        self._orders = [None if branch.target == SINK else self._order_of(branch) for branch in branches]

    @property
    def rows_out(self) -> int:
        """How many rows went to the sink."""
        return self._writer.rows

    def take(self, rows: pa.Table) -> None:
        if not rows.num_rows:
            return
        results = run_branches(rows, self._branches)
        for gathered, branch, order, result in zip(
            self._travelling, self._branches, self._orders, results, strict=True
        ):
            if not result.num_rows:
                continue
            if branch.target == SINK:
                self._writer.write(result)
            else:
                gathered.append(travelling(self._subquery(branch), branch.port, result, order))

    def take_behind(self, rows: pa.Table, late_below: Mark) -> list[LateFor]:
        """Take what is not late of rows behind the punctuation; gives what was late for which target."""
        found: list[LateFor] = []
        for gathered, branch, order in zip(self._travelling, self._branches, self._orders, strict=True):
            taken, late = judged(rows, branch, late_below)
            found.append(late)
            if taken is not None and taken.num_rows:
                gathered.append(travelling(self._subquery(branch), branch.port, taken, order))
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
