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
from penstock.engine.deliver import blobs_for_sites, writer_for
from penstock.engine.job import EpochJob, Message
from penstock.engine.steps import run_branches
from penstock.operators.arrange import merged
from penstock.plan.program import SINK, Branch, Subquery


class Branches:
    """Takes rows table by table. To the sink they go at once, so that memory stays bounded by a table."""

    def __init__(self, job: EpochJob, branches: Sequence[Branch], producer: str, sync: Sync = sync_file) -> None:
        self._job, self._branches = job, branches
        self._writer = writer_for(job, "results", producer, job.program.result_schema, sync)
        self._travelling: list[list[pa.Table]] = [[] for _ in branches]

    @property
    def rows_out(self) -> int:
        """How many rows went to the sink."""
        return self._writer.rows

    def take(self, rows: pa.Table) -> None:
        if not rows.num_rows:
            return
        for gathered, branch, result in zip(
            self._travelling, self._branches, run_branches(rows, self._branches), strict=True
        ):
            if not result.num_rows:
                continue
            if branch.target == SINK:
                self._writer.write(result)
            else:
                gathered.append(travelling(self._subquery(branch), branch.port, result))

    def staged(self) -> tuple[Staged, ...]:
        file = self._writer.finish("results")
        return (file,) if file else ()

    def messages(self, header: Header) -> Iterator[Message]:
        """A blob for every site of every subquery that is fed, also where there are no rows for it. A consumer is told
        the punctuation that it follows, and no other."""
        for number, (branch, tables) in enumerate(zip(self._branches, self._travelling, strict=True)):
            if branch.target != SINK:
                subquery = self._subquery(branch)
                rows = together(subquery, branch.port, tables) if tables else None
                marks = branch.followed(header.marks) if header.marks else ()
                of_branch = replace(header, branch=number, port=branch.port, marks=marks)
                yield from blobs_for_sites(rows, self._job.directories[branch.target], subquery, of_branch)

    def _subquery(self, branch: Branch) -> Subquery:
        return self._job.program.subqueries[branch.target]


def travelling(subquery: Subquery, port: int, rows: pa.Table) -> pa.Table:
    """Rows in the form in which they travel to a subquery."""
    operator = subquery.operator
    return operator.arrange(port, rows) if subquery.takes_rows else operator.prepare(port, rows)


def together(subquery: Subquery, port: int, tables: Sequence[pa.Table]) -> pa.Table:
    """Several tables in that form as one."""
    if subquery.takes_rows:
        return merged(tables, tables[0].schema)
    return subquery.operator.combine(port, tables)
