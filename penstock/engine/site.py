"""The site step: take the blobs in, work through the list until the deadline, write state, report.

Intake is never deferred: what has arrived is state at the end of the step, whatever work is left for later epochs.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from penstock.checkpoint.faults import FaultPoint, reach
from penstock.checkpoint.manifest import RangeMark, SiteState
from penstock.checkpoint.run_files import write_run
from penstock.checkpoint.store import staged_name
from penstock.engine.blob import Blob, Header
from penstock.engine.emit import Emitter
from penstock.engine.job import CONTROL, EpochJob, Message, SiteReport, site_producer
from penstock.engine.marks import least, moved_to
from penstock.engine.merge import merge, site_low_water_mark
from penstock.engine.view import OPEN_RUNS, StateView, read_slices
from penstock.engine.worklist import Deadline, close_items, nothing_due
from penstock.progress.mark import Mark
from penstock.state.compaction import MOST_SLICES, choose
from penstock.state.directory import HashRange
from penstock.state.runs import HASH, Slice


def site_step(job: EpochJob, subquery: int, site: int, blobs: Iterable[Blob]) -> Iterator[Message]:
    """All messages of one site: blobs for the next subquery, if there is one, and its report."""
    step = _Step(job, subquery, site)
    return step.run(blobs)


class _Step:
    def __init__(self, job: EpochJob, subquery: int, site: int) -> None:
        self._job, self._subquery, self._site = job, job.program.subqueries[subquery], site
        self._operator = self._subquery.operator
        self._state = job.sites[subquery][site]
        self._producer, self._attempt = site_producer(subquery, site), uuid.uuid4().hex
        self._emitter = Emitter(job, self._subquery, self._producer)
        self._deadline = Deadline(job.limits)

    def run(self, blobs: Iterable[Blob]) -> Iterator[Message]:
        started = time.perf_counter()
        arrived = merge(self._operator, blobs)
        upto = site_low_water_mark(self._job, self._subquery.number, arrived)
        reach(FaultPoint.SITE_MERGED)
        marks = self._work(arrived.rows, upto)
        staged = self._emitter.staged()
        reach(FaultPoint.SITE_WORKED)
        state = SiteState(self._new_slices(arrived.rows, least(marks)), marks)
        reach(FaultPoint.SITE_DONE)
        out = Header(self._producer, self._attempt, mark=self._operator.output_mark(least(marks)))
        yield from self._emitter.messages(out)
        report = SiteReport(
            producer=self._producer,
            attempt=self._attempt,
            subquery=self._subquery.number,
            site=self._site,
            read=arrived.read,
            state=state,
            staged=staged,
            rows_in=arrived.rows.num_rows,
            rows_out=self._emitter.rows,
            items=self._deadline.done,
            pending=least(marks) < upto,
            seconds=time.perf_counter() - started,
        )
        yield Message(CONTROL, self._site, report)

    def _work(self, fresh: pa.Table, upto: Mark) -> tuple[RangeMark, ...]:
        """Close what is due until the deadline; gives the marks of all ranges afterwards."""
        view = StateView(self._job.runs, self._state.slices, fresh)
        marks, window = self._state.marks, self._operator.window
        items = close_items(marks, upto, view, window, self._job.limits.item_rows)
        for free in nothing_due(marks, items, upto):
            marks = moved_to(marks, free, upto)
        for item in self._deadline.take(items):
            partials = self._operator.combine(view.gather(item.range, upto))
            self._emitter.emit(self._operator.close(partials, item.after, upto))
            marks = moved_to(marks, item.range, upto)
        return marks

    def _new_slices(self, fresh: pa.Table, mark: Mark) -> tuple[Slice, ...]:
        """The state after the step: expired runs dropped, the arrived rows that are still needed added, compacted."""
        expired_below = self._operator.expired_below(mark)
        slices = [piece for piece in self._state.slices if piece.run.max_time >= expired_below]
        slices += self._store(self._operator.alive(fresh, mark))
        for group in choose(slices, expired_below, self._operator.window.size):
            if not self._deadline.allows() and len(slices) <= MOST_SLICES:
                break
            slices = [piece for piece in slices if piece not in group] + self._compacted(group, mark)
        OPEN_RUNS.keep_only(self._job.runs, self._names_in_use(slices))
        return tuple(slices)

    def _compacted(self, group: Sequence[Slice], mark: Mark) -> list[Slice]:
        merged = self._operator.combine(read_slices(self._job.runs, group))
        return self._store(self._operator.alive(merged, mark))

    def _store(self, rows: pa.Table) -> list[Slice]:
        if not rows.num_rows:
            return []
        part = f"q{self._subquery.number}-s{self._site}"
        run = write_run(self._job.runs, staged_name(self._job.epoch, part, uuid.uuid4().hex, "arrow"), rows)
        hashes = rows.column(HASH)
        return [Slice(run, HashRange(hashes[0].as_py(), hashes[-1].as_py() + 1))]

    def _names_in_use(self, slices: Sequence[Slice]) -> set[str]:
        """The runs that this process may be asked for again: its sites change, so those of all sites count."""
        committed = {p.run.name for sites in self._job.sites for state in sites for p in state.slices}
        return committed | {piece.run.name for piece in slices}
