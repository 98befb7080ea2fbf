"""What a site emits: rows through the tail of its subquery, to the sink's staging or to the next subquery."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from penstock.checkpoint.manifest import Staged
from penstock.engine.blob import Header
from penstock.engine.deliver import blobs_for_sites, writer_for
from penstock.engine.job import EpochJob, Message
from penstock.engine.steps import run_steps
from penstock.operators.aggregate import WindowAggregate
from penstock.plan.subqueries import SINK, Subquery


class Emitter:
    """Takes result rows item by item. To the sink they go at once, so that memory stays bounded by an item."""

    def __init__(self, job: EpochJob, subquery: Subquery, producer: str) -> None:
        self._job, self._subquery = job, subquery
        self._writer = writer_for(job, "results", producer, job.program.result_schema)
        self._partials: list[pa.Table] = []
        self.rows = 0

    def emit(self, results: pa.Table) -> None:
        rows = run_steps(results, self._subquery.tail)
        self.rows += rows.num_rows
        if self._subquery.target == SINK:
            self._writer.write(rows)
        elif rows.num_rows:
            self._partials.append(self._next.partials(rows))

    @property
    def _next(self) -> WindowAggregate:
        """The operator of the subquery that the rows go to."""
        return self._job.program.subqueries[self._subquery.target].operator

    def staged(self) -> tuple[Staged, ...]:
        file = self._writer.finish("results")
        return (file,) if file else ()

    def messages(self, header: Header) -> Iterator[Message]:
        target = self._subquery.target
        if target != SINK:
            rows = self._next.combine(self._partials)
            yield from blobs_for_sites(rows, self._job.directories[target], target, header)
