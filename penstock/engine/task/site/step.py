"""The site step: merge the blobs, run work items until the deadline, write state, report.

Intake is never deferred: all rows that have arrived are in files at the end of the step, whatever work is left for
later epochs.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pyarrow as pa

from penstock.balance.stats import SiteStatistics
from penstock.clock import Clock, Stopwatch
from penstock.engine.task.exchange.branches import Branches
from penstock.engine.task.site.access import run_access
from penstock.engine.task.site.budgets import budget_of, within_budget
from penstock.engine.task.site.cleaning import SiteCleanUp
from penstock.engine.task.site.compacting import Compaction
from penstock.engine.task.site.counting import OutputByGroup, SiteBorders
from penstock.engine.task.site.cutting import PartLimits, TableRows
from penstock.engine.task.site.keeping import Kept
from penstock.engine.task.site.loads import SiteStatisticsCollector
from penstock.engine.task.site.merge import Arrived, Held, merge, release, site_marks, state_rows, with_overflow
from penstock.engine.task.site.storing import RunSchemas, Storage, alive, of_port, spread_anew
from penstock.engine.task.site.view import StateView, state_view
from penstock.engine.task.site.working import AllMarks, Work
from penstock.engine.wire.blob import Blob, Header
from penstock.engine.wire.job import EpochJob, SiteReport, SiteResult, site_producer
from penstock.operators.arrange import hashes_of
from penstock.operators.generations import Generational
from penstock.operators.protocol import UNCOUNTED, Gridded, KeepsTimesApart, ProbingOperator
from penstock.progress.mark import MIN_TIME, Marks, low_water_mark
from penstock.state.compaction import most_slices
from penstock.state.hash_ranges import EVERYTHING, HashRange, apart, coalesced, hull, remaining
from penstock.state.model import SiteState, least, restricted
from penstock.state.overflow import inside
from penstock.state.runs import Slice, about, restrict
from penstock.storage.durable import BackgroundSync
from penstock.storage.faults import FaultPoint, reach

MOST_PENDING = 16  # slices of a port's pending rows: every item searches all of them for its rows


def site_step(job: EpochJob, subquery: int, site: int, blobs: Iterable[Blob], clock: Clock) -> SiteResult:
    """Run one site on its blobs."""
    return _Step(job, subquery, site, clock).run(blobs)


class _Step:
    """The step of one site in one epoch; run it once."""

    def __init__(self, job: EpochJob, subquery: int, site: int, clock: Clock) -> None:
        self._job, self._subquery, self._site = job, job.program.subqueries[subquery], site
        self._operator = self._subquery.operator
        self._state, self._directory = job.state_of(subquery, site), job.directories[subquery]
        self._producer, self._attempt = site_producer(subquery, site), uuid.uuid4().hex
        self._syncing = BackgroundSync()
        self._branches = Branches(job, self._subquery.branches, self._producer, self._syncing.later)
        part = f"q{subquery}-s{site}"
        urgent = self._directory.cells_of(site, gathering=True)  # these cannot be gathered while they are parked
        self._to_clean = coalesced([*(job.clean_up[subquery] if job.clean_up else ()), *urgent])
        owed = [piece for parked in inside(self._state.parked, self._to_clean) for piece in parked.slices()]
        access = run_access(job, part, (*self._state.needed_slices(), *owed))
        schemas = RunSchemas(job.program, self._subquery, self._state)
        budget, home = budget_of(job), hull(self._directory.ranges_of(site))
        self._storage = Storage(
            job.runs, job.epoch, part, access, self._syncing.later, schemas.of, budget, home, job.limits.merge_bytes
        )
        self._watch = Stopwatch(clock)
        if subquery in job.regridded and isinstance(self._operator, Gridded):
            self._state = spread_anew(self._storage, self._operator, self._state, self._directory.ranges_of(site))
        self._output = OutputByGroup(SiteBorders.of(self._directory, site)) if job.collect_statistics else None
        self._work = Work(
            self._operator, job.limits, self._branches, self._storage, self._watch, urgent, self._state.turn,
            job.told_keys[subquery] if job.told_keys else (), clock=clock, counts=self._output or UNCOUNTED,
        )  # fmt: skip
        self._clean_up = SiteCleanUp(self._operator, job.limits, self._storage, self._work, clock)

    def run(self, blobs: Iterable[Blob]) -> SiteResult:
        """Run the step. It does not wait until its files are durable."""
        watch = self._watch
        arrived = merge(self._job, self._subquery, self._site, blobs, self._storage)
        upto = site_marks(self._job, self._subquery, arrived.headers)
        reach(FaultPoint.SITE_MERGED)
        rows, held = self._let_through(arrived, upto)
        watch.lap("merge")
        fresh = [state_rows(self._subquery, port, part) for port, part in enumerate(rows)]
        backlog_before, overflow = self._rows_of(self._state.pending), self._rows_of(arrived.written)
        self._state = with_overflow(self._state, self._operator, arrived.written)
        if self._to_clean:
            self._state = self._clean_up.run(self._state, self._to_clean)
            watch.lap("clean up")
            reach(FaultPoint.SITE_CLEANED)
        view = state_view(self._storage, self._operator, self._state, fresh)
        marks = self._work.run(view, self._state.marks, upto)
        staged = self._branches.staged()
        watch.lap("emit")
        reach(FaultPoint.SITE_WORKED)
        state = self._new_state(view, marks, upto, held)
        watch.lap("keep")
        reach(FaultPoint.SITE_DONE)
        reached = least(marks, self._operator.tracks)
        rows_in = overflow + sum(t.num_rows for tables in fresh for t in tables)
        backlog = self._rows_of(state.pending)
        header = Header(self._producer, self._attempt, marks=self._operator.output_marks(reached))
        messages = tuple(self._branches.messages(header))
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
            rows_done=backlog_before + rows_in - backlog,
            rows_out=self._branches.rows_out,
            items=self._work.deadline.done,
            pending=bool(self._work.left(marks, upto, view.parked) or state.pending),
            backlog=backlog,
            time=watch.task_time(),
            statistics=self._statistics(view, state, upto),
            fetched=self._storage.brought(),
            flushed=self._work.flushed,
            explosions=tuple(self._work.explosions),
        )
        within_budget(self._job, self._storage.budget)
        return SiteResult(messages, report, self._syncing.durable())

    def _let_through(self, arrived: Arrived, upto: Marks) -> tuple[Sequence[Sequence[pa.Table]], Held]:
        """Return the rows for the operator, by port, and the rows that the ordered merger holds back."""
        if not self._subquery.ordered:
            return arrived.rows, Held()
        return release(self._storage, self._state, arrived.rows, low_water_mark(upto), self._work.deadline.allows)

    def _new_state(self, view: StateView, marks: AllMarks, upto: Marks, held: Held) -> SiteState:
        """Return the state after the step: expired runs dropped, the rows that are still needed added, slices
        compacted."""
        free = remaining([EVERYTHING], view.parked)
        reached = least(restricted(marks, free) if view.parked else marks, self._operator.tracks)
        slices, pending, active = list[Slice](), list[Slice](), list[Slice]()
        for port in range(self._operator.ports):
            expired_below = self._operator.expired_below(port, reached)
            fresh = _inside(view.fresh[port], free) if view.parked else view.fresh[port]
            slices += self._written_state(port, self._state.slices, fresh, self._work.kept, expired_below)
            pending += self._unworked(port, view)
            if view.parked:
                fresh = _inside(view.fresh[port], view.parked)
                active += self._written_state(port, self._state.active, fresh, self._work.kept_active, MIN_TIME)
        turn = self._work.turn if pending or self._work.left(marks, upto, view.parked) else 0
        state = replace(
            self._state,
            slices=tuple(slices),
            marks=marks,
            pending=tuple(pending),
            held=held.slices,
            released=held.released,
            turn=turn,
            active=tuple(active),
        )
        self._storage.keep_open(self._names_in_use(state))
        return state

    def _written_state(
        self, port: int, stored: Sequence[Slice], fresh: Sequence[pa.Table], kept: Kept, expired_below: int
    ) -> list[Slice]:
        """Return the slices of a port after the step, either those of the active generations or all others: write the
        rows that are still needed as a run, and compact."""
        operator = self._operator
        new = operator.to_store(fresh, kept.rows[port])
        if isinstance(operator, KeepsTimesApart):
            new = [alive(rows, expired_below) for rows in new]
        rows = alive(operator.combine(port, new), expired_below)
        slices = [*of_port(stored, port), *kept.written[port], *self._storage.write(port, rows)]
        span, may = operator.span(port), self._work.deadline.allows
        return Compaction(self._storage, port, operator.combine, expired_below, span, may).run(slices)

    def _unworked(self, port: int, view: StateView) -> list[Slice]:
        """Return the slices of the rows in ranges that were not worked on: those pending before, and those that have
        just arrived. Rewrites them if there are too many slices."""
        if not isinstance(self._operator, ProbingOperator):
            return []
        cells = self._borders_of_pending(view)
        undone = apart(remaining([EVERYTHING], self._work.done), cells)
        slices = of_port(self._state.pending, port)
        old = [piece for piece in restrict(slices, undone) if self._storage.may_have_rows(piece)]
        if most_slices(old) < MOST_PENDING + 2 * len(cells) or not all(map(self._storage.is_here, old)):
            return [*old, *self._written_apart(port, view.fresh_inside(port, undone), cells)]
        parts = (part for one in undone for part in view.cuts(one, PartLimits(bytes=self._storage.budget.piece)))
        tables = (self._operator.combine(port, view.unworked(port, [part])) for part in parts)
        return [piece for rows in tables for piece in self._written_apart(port, rows, cells)]

    def _borders_of_pending(self, view: StateView) -> list[HashRange]:
        """Return the ranges whose pending rows have slices of their own: cells, and parked ranges of an operator that
        does not work on such rows."""
        cells = self._directory.cells_of(self._site)
        waiting = [] if isinstance(self._operator, Generational) else view.parked
        return sorted([*remaining(waiting, cells), *cells]) if waiting else list(cells)

    def _written_apart(self, port: int, rows: pa.Table, cells: Sequence[HashRange]) -> list[Slice]:
        """Write pending rows as a new run, in one slice per cell and per range between cells, without empty slices: the
        slices show whether rows of a spread hash are pending."""
        written = self._storage.write(port, rows)
        if not (written and cells):
            return written
        hashes = hashes_of(rows)
        pieces = restrict(written, apart([EVERYTHING], cells))
        return [piece for piece in pieces if len(hashes[piece.range.rows(hashes)])]

    def _statistics(self, view: StateView, state: SiteState, upto: Marks) -> SiteStatistics | None:
        """Return the statistics of the site's groups, keys and cells; None if the job does not ask for them."""
        if self._output is None:
            return None
        collector = SiteStatisticsCollector(
            self._job, self._subquery, self._site, self._storage, view, self._work, self._output
        )
        return collector.collect(state, upto)

    def _rows_of(self, slices: Iterable[Slice]) -> int:
        """Return the number of rows in slices; estimated for slices that have not been fetched yet."""
        here, sites = self._storage.is_here, self._directory.sites
        return sum(self._storage.rows_of(piece) if here(piece) else about(piece, sites) for piece in slices)

    def _names_in_use(self, state: SiteState) -> set[str]:
        """Return the names of the runs that this process may read again. Includes the runs of other sites that it may
        get."""
        return {*self._job.runs_in_use, *(piece.run.name for piece in state.all_slices())}


def _inside(tables: Sequence[pa.Table], ranges: Sequence[HashRange]) -> list[pa.Table]:
    """Return the rows of sorted tables in some ranges, as sorted tables."""
    return [rows for table in map(TableRows, tables) for part in ranges if (rows := table.inside(part)).num_rows]
