"""The site step: take the blobs in, work through the list until the deadline, write state, report.

Intake is never deferred: what has arrived is in files at the end of the step, whatever work is left for later epochs.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from penstock.balance.round import Counts, Loads
from penstock.checkpoint.faults import FaultPoint, reach
from penstock.checkpoint.manifest import RangeMark, SiteState
from penstock.engine.blob import Blob, Header
from penstock.engine.branches import Branches
from penstock.engine.drag import current_drag
from penstock.engine.job import CONTROL, EpochJob, Message, SiteReport, site_producer
from penstock.engine.loads import Borders, borders_of, shared_out
from penstock.engine.marks import behind, least, moved_to, restricted
from penstock.engine.merge import Arrived, merge, site_marks, state_rows
from penstock.engine.ordered import Held, release
from penstock.engine.run_access import run_access
from penstock.engine.stopwatch import Stopwatch
from penstock.engine.storing import Storage, alive, of_port
from penstock.engine.view import StateView
from penstock.engine.worklist import Deadline, items, nothing_due, stretches
from penstock.operators.arrange import hashes_of
from penstock.operators.base import Marks, Portion
from penstock.progress.substreams import low_water_mark
from penstock.state.directory import EVERYTHING, HASH_END, HashRange, remaining
from penstock.state.runs import Slice, restrict, united

AllMarks = tuple[RangeMark, ...]


def site_step(job: EpochJob, subquery: int, site: int, blobs: Iterable[Blob]) -> Iterator[Message]:
    """All messages of one site: blobs for the subqueries behind it, and its report."""
    return _Step(job, subquery, site).run(blobs)


MOST_PENDING = 16  # pieces of a port's pending rows: every item looks for its rows in all of them


class _Step:
    def __init__(self, job: EpochJob, subquery: int, site: int) -> None:
        self._job, self._subquery, self._site = job, job.program.subqueries[subquery], site
        self._operator = self._subquery.operator
        self._state = job.sites[subquery][site]
        self._producer, self._attempt = site_producer(subquery, site), uuid.uuid4().hex
        self._branches = Branches(job, self._subquery.branches, self._producer)
        part = f"q{subquery}-s{site}"
        self._storage = Storage(job.runs, job.epoch, part, run_access(job, part, self._state.needed_slices()))
        self._deadline = Deadline(job.limits)
        self._watch, self._drag = Stopwatch(), current_drag()
        self._done: list[HashRange] = []
        self._worked: list[tuple[HashRange, float]] = []
        self._kept: list[list[pa.Table]] = [[] for _ in range(self._operator.ports)]

    def run(self, blobs: Iterable[Blob]) -> Iterator[Message]:
        watch = self._watch
        arrived = merge(self._job, self._subquery, self._site, blobs)
        upto = site_marks(self._job, self._subquery, arrived.headers)
        reach(FaultPoint.SITE_MERGED)
        rows, held = self._let_through(arrived, upto)
        watch.lap("merge")
        fresh = [state_rows(self._subquery, port, part) for port, part in enumerate(rows)]
        view = StateView(self._storage, self._operator, self._state, fresh)
        marks = self._work(view, upto)
        staged = self._branches.staged()
        watch.lap("emit")
        reach(FaultPoint.SITE_WORKED)
        state = self._new_state(view, marks, held)
        watch.lap("keep")
        reach(FaultPoint.SITE_DONE)
        reached = least(marks, self._operator.tracks)
        rows_in, backlog = sum(t.num_rows for tables in fresh for t in tables), sum(map(self._rows_of, state.pending))
        header = Header(self._producer, self._attempt, marks=self._operator.output_marks(reached))
        yield from self._branches.messages(header)
        watch.lap("exchange")
        report = SiteReport(
            producer=self._producer,
            attempt=self._attempt,
            subquery=self._subquery.number,
            site=self._site,
            read=arrived.read,
            state=state,
            staged=staged,
            rows_in=rows_in,
            rows_done=sum(map(self._rows_of, self._state.pending)) + rows_in - backlog,
            rows_out=self._branches.rows_out,
            items=self._deadline.done,
            pending=behind(reached, upto) or bool(state.pending),
            backlog=backlog,
            time=watch.task_time(),
            load=self._load(view, state, upto) if self._job.tell_loads else None,
            fetched=self._storage.brought(),
        )
        yield Message(CONTROL, self._site, report)

    def _let_through(self, arrived: Arrived, upto: Marks) -> tuple[Sequence[Sequence[pa.Table]], Held]:
        """What the merger gives to the operator, and what it holds back."""
        if not self._subquery.ordered:
            return arrived.rows, Held()
        return release(self._storage, self._state, arrived.rows, low_water_mark(upto), self._deadline.allows)

    def _work(self, view: StateView, upto: Marks) -> AllMarks:
        """Do what is due until the deadline; gives the marks of all ranges afterwards. What needs rows that have yet
        to be fetched comes last."""
        coming = view.on_their_way()
        marks, waiting = self._work_inside([EVERYTHING], self._state.marks, view, upto, coming)
        if waiting:
            nothing_else = not self._done and not view.has_fresh
            needed = [piece for piece in coming if any(restrict([piece], waiting))]
            self._storage.wait_for(needed, self._deadline.patience(nothing_else))
            self._watch.lap("fetch")
            marks, _ = self._work_inside(waiting, marks, view, upto, view.on_their_way())
        return marks

    def _work_inside(
        self, ranges: Sequence[HashRange], marks: AllMarks, view: StateView, upto: Marks, coming: Sequence[Slice]
    ) -> tuple[AllMarks, list[HashRange]]:
        """The same in some ranges, in order, of which nothing has been worked on yet; also gives those that wait for
        slices that are coming."""
        inside = restricted(marks, ranges)
        work = stretches(inside, upto, view, self._operator, united(coming))
        for free in nothing_due(inside, work, upto):
            marks = moved_to(marks, free, upto)
        for item in self._deadline.take(items(work, view, self._job.limits.item_rows)):
            began = time.perf_counter()
            portion = view.portion(item.range, item.after, upto)
            done = self._operator.work(portion)
            for results in done.results:  # made one by one, so that they are not all held at once
                self._watch.lap("work")
                self._branches.take(results)
                self._watch.lap("emit")
            for kept, rows in zip(self._kept, done.keep, strict=True):
                kept.append(rows)
            self._drag_along(portion, time.perf_counter() - began)
            self._done.append(item.range)
            self._worked.append((item.range, time.perf_counter() - began))
            marks = moved_to(marks, item.range, upto)
        self._watch.lap("work")
        return marks, sorted(stretch.range for stretch in work if stretch.waits)

    def _drag_along(self, portion: Portion, took: float) -> None:
        if self._drag is not None:
            rows = portion.rows_to_do(self._operator.probes)
            time.sleep(self._drag.pause(self._site, rows, took, time.time()))

    def _new_state(self, view: StateView, marks: AllMarks, held: Held) -> SiteState:
        """The state after the step: expired runs dropped, the rows that are still needed added, compacted."""
        reached = least(marks, self._operator.tracks)
        slices: list[Slice] = []
        pending: list[Slice] = []
        for port in range(self._operator.ports):
            slices += self._settled(port, view.fresh[port], self._operator.expired_below(port, reached))
            pending += self._unworked(port, view)
        state = SiteState(tuple(slices), marks, tuple(pending), held.slices, held.released)
        self._storage.keep_open(self._names_in_use(state))
        return state

    def _settled(self, port: int, fresh: Sequence[pa.Table], expired_below: int) -> list[Slice]:
        operator = self._operator
        new = [*self._kept[port]] if operator.probes else [*fresh, *self._kept[port]]
        if operator.keeps_times_apart:
            new = [alive(rows, expired_below) for rows in new]
        rows = alive(operator.combine(port, new), expired_below)
        slices = of_port(self._state.slices, port) + self._storage.write(port, rows)
        return self._storage.compacted(
            slices, port, expired_below, operator.span(port), operator.combine, self._deadline.allows
        )

    def _unworked(self, port: int, view: StateView) -> list[Slice]:
        """The rows whose ranges were not reached: what was pending before, and what has just arrived. Where that is in
        too many pieces, they are written anew as one."""
        if not self._operator.probes:
            return []
        undone = remaining([EVERYTHING], self._done)
        slices = of_port(self._state.pending, port)
        old = [piece for piece in restrict(slices, undone) if self._storage.may_have_rows(piece)]
        if len(old) < MOST_PENDING or not all(map(self._storage.is_here, old)):
            return [*old, *self._storage.write(port, view.fresh_inside(port, undone))]
        return self._storage.write(port, self._operator.combine(port, view.unworked(port, undone)))

    def _load(self, view: StateView, state: SiteState, upto: Marks) -> Loads:
        """What the groups of this site came to. What is due of stored rows counts as pending where it was not done."""
        borders = borders_of(self._job.directories[self._subquery.number], self._site)
        fresh = [hashes_of(table) for tables in view.fresh for table in tables]
        rows, (stored, size) = borders.counted(fresh), self._stored(borders, state.slices)
        pending, _ = self._stored(borders, state.pending)
        if not self._operator.probes:
            for lagging in (m.range for m in state.marks if behind(m.marks, upto)):
                pending = np.where(borders.overlap(lagging), stored, pending)
        return Loads(
            rows=rows,
            heaviest=borders.heaviest(fresh),
            seconds=shared_out(borders, self._worked, rows if self._operator.probes else rows + stored),
            state_rows=stored,
            state_bytes=size,
            pending=pending,
            last_used=np.where(rows > 0, 1, 0),
            done=borders.counted(view.hashes_inside(self._done)) if self._operator.probes else rows,
        )

    def _stored(self, borders: Borders, slices: Iterable[Slice]) -> tuple[Counts, Counts]:
        """The rows of slices, and about their bytes, group by group."""
        rows, size = np.zeros((2, len(borders)), np.int64)
        for piece in slices:
            counted = self._counted(borders, piece)
            rows += counted
            size += counted * (piece.run.size // piece.run.rows)
        return rows, size

    def _counted(self, borders: Borders, piece: Slice) -> Counts:
        """The rows of a slice, group by group; those that have yet to be fetched are taken to be spread evenly."""
        if self._storage.is_here(piece):
            return borders.counted([hashes_of(self._storage.read(piece))])
        mine = borders.overlap(piece.range)
        return np.where(mine, self._rows_of(piece) // max(1, int(mine.sum())), 0)

    def _rows_of(self, piece: Slice) -> int:
        """The rows of a slice; a guess where they have yet to be fetched: a run has the hashes of one site."""
        if self._storage.is_here(piece):
            return int(self._storage.read(piece).num_rows)
        part = (piece.range.high - piece.range.low) * len(self._job.sites[self._subquery.number]) / HASH_END
        return round(piece.run.rows * min(1.0, part))

    def _names_in_use(self, state: SiteState) -> set[str]:
        """The runs that this process may be asked for again: its sites change, so those of all sites count."""
        committed = {p.run.name for sites in self._job.sites for site in sites for p in site.all_slices()}
        return committed | {piece.run.name for piece in state.all_slices()}
