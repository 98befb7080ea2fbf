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
from penstock.engine.task.exchange.branches import Branches, run_steps
from penstock.engine.task.exchange.deliver import travelling
from penstock.engine.task.site.compacting import Compaction
from penstock.engine.task.site.counting import OutputByGroup, SiteBorders
from penstock.engine.task.site.loads import SiteStatisticsCollector
from penstock.engine.task.site.merge import Arrived, Held, merge, release, site_marks, state_rows, with_overflow
from penstock.engine.task.site.parts import SiteCleanUp, SitePart, SiteParts, site_parts
from penstock.engine.task.site.storing import Storage, alive, of_port, run_access
from penstock.engine.task.site.view import PartLimits
from penstock.engine.task.site.working import AllMarks, Deadline, Work
from penstock.engine.wire.blob import Blob, Header
from penstock.engine.wire.job import EpochJob, SiteReport, SiteResult, site_producer
from penstock.operators.arrange import hashes_of
from penstock.operators.generations import Generational
from penstock.operators.protocol import UNCOUNTED, Gridded, KeepsTimesApart, ProbingOperator
from penstock.plan.program import ROW_NUMBER, Feed, Program, Subquery
from penstock.progress.mark import MIN_TIME, Marks, low_water_mark
from penstock.state.hash_ranges import EVERYTHING, HashRange, apart, coalesced, hull, remaining
from penstock.state.model import SiteState, least, parked_inside
from penstock.state.runs import RunFile, Slice, about, most_slices, outside, restrict
from penstock.storage.durable import BackgroundSync
from penstock.storage.faults import FaultPoint, reach
from penstock.storage.memory import RESIDENT, Budget, budget_for, memory_limit, resident_bytes
from penstock.units import MEGABYTE

BASE = 200 * MEGABYTE  # about what a worker takes without any rows
FREE = 0.4  # part of the budget that a step may take beyond what there was before it
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
        owed = [piece for parked in parked_inside(self._state.parked, self._to_clean) for piece in parked.slices()]
        access = run_access(job, part, (*self._state.needed_slices(), *owed))
        schemas = _RunSchemas(job.program, self._subquery, self._state)
        budget, home = _budget_of(job), hull(self._directory.ranges_of(site))
        self._storage = Storage(
            job.runs, job.epoch, part, access, self._syncing.later, schemas.of, budget, home, job.limits.merge_bytes
        )
        self._watch = Stopwatch(clock)
        if subquery in job.regridded and isinstance(self._operator, Gridded):
            self._state = _spread_anew(self._storage, self._operator, self._state, self._directory.ranges_of(site))
        self._output = OutputByGroup(SiteBorders.of(self._directory, site)) if job.collect_statistics else None
        self._clock, self._urgent, self._deadline = clock, urgent, Deadline(job.limits, clock)

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
        work = self._new_work()
        if self._to_clean:
            self._state = self._cleaned_up(work)
        parts = site_parts(self._storage, self._operator, self._state, fresh, (work, self._new_work()), upto)
        parts = parts.run(self._operator, active_first=bool(self._job.epoch % 2))
        marks = parts.marks(self._state)
        staged = self._branches.staged()
        watch.lap("emit")
        reach(FaultPoint.SITE_WORKED)
        state = self._new_state(parts, marks, held)
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
            items=self._deadline.done,
            pending=bool(parts.usual.left or state.pending),
            backlog=backlog,
            time=watch.task_time(),
            statistics=self._statistics(parts, state),
            fetched=self._storage.brought(),
            flushed=parts.usual.work.flushed,
            explosions=tuple(found for part in parts.all for found in part.work.explosions),
        )
        _keep_within(self._job, self._storage.budget)
        return SiteResult(messages, report, self._syncing.durable())

    def _new_work(self) -> Work:
        """Return a new work of this step; all share its deadline."""
        reported = self._job.reported_keys[self._subquery.number] if self._job.reported_keys else ()
        return Work(
            self._operator, self._job.limits, self._branches, self._storage, self._watch, self._urgent,
            self._state.turn, reported, clock=self._clock, deadline=self._deadline, counts=self._output or UNCOUNTED,
        )  # fmt: skip

    def _cleaned_up(self, work: Work) -> SiteState:
        """Return the state after a clean-up."""
        clean_up = SiteCleanUp(self._operator, self._job.limits, self._storage, work, self._clock)
        state = clean_up.run(self._state, self._to_clean)
        self._watch.lap("clean up")
        reach(FaultPoint.SITE_CLEANED)
        return state

    def _let_through(self, arrived: Arrived, upto: Marks) -> tuple[Sequence[Sequence[pa.Table]], Held]:
        """Return the rows for the operator, by port, and the rows that the ordered merger holds back."""
        if not self._subquery.ordered:
            return arrived.rows, Held()
        return release(self._storage, self._state, arrived.rows, low_water_mark(upto), self._deadline.allows)

    def _new_state(self, parts: SiteParts, marks: AllMarks, held: Held) -> SiteState:
        """Return the state after the step: expired runs dropped, the rows that are still needed added, slices
        compacted."""
        stored = [self._stored(part) for part in parts.all]
        pending = [piece for part in parts.all for piece in self._pending(part)]
        turns = [part.work.turn for part in parts.all if part.work.done]
        state = replace(
            self._state,
            slices=stored[0],
            active=stored[1] if parts.active else (),
            marks=marks,
            pending=tuple(pending),
            held=held.slices,
            released=held.released,
            turn=(turns or [self._state.turn])[0] if pending or parts.usual.left else 0,
        )
        self._storage.keep_open(self._names_in_use(state))
        return state

    def _stored(self, part: SitePart) -> tuple[Slice, ...]:
        """Return the stored slices of a part after the step, of all ports. The active generation does not expire."""
        reached, stored = least(part.state.marks, self._operator.tracks), list[Slice]()
        for port in range(self._operator.ports):
            expired_below = MIN_TIME if part.is_active else self._operator.expired_below(port, reached)
            stored += self._written_state(port, part, expired_below)
        return tuple(stored)

    def _written_state(self, port: int, part: SitePart, expired_below: int) -> list[Slice]:
        """Return the stored slices of a port after the step: write the rows that are still needed as a run, and
        compact."""
        operator, kept = self._operator, part.work.kept
        new = operator.to_store(part.view.fresh[port], kept.rows[port])
        if isinstance(operator, KeepsTimesApart):
            new = [alive(rows, expired_below) for rows in new]
        rows = alive(operator.combine(port, new), expired_below)
        slices = [*of_port(part.state.slices, port), *kept.written[port], *self._storage.write(port, rows)]
        span, may = operator.span(port), self._deadline.allows
        return Compaction(self._storage, port, operator.combine, expired_below, span, may).run(slices)

    def _pending(self, part: SitePart) -> list[Slice]:
        """Return the slices of the rows of a part that were not worked on."""
        if not isinstance(self._operator, ProbingOperator):
            return []
        pending = [piece for port in range(self._operator.ports) for piece in self._unworked(port, part)]
        if isinstance(self._operator, Generational) or not self._state.parked:
            return pending
        parked = self._state.parked_ranges()  # the slices show that these rows wait for a clean-up
        return list(restrict(pending, parked) if part.is_active else outside(pending, parked))

    def _unworked(self, port: int, part: SitePart) -> list[Slice]:
        """Return the slices of the rows in ranges that were not worked on: those pending before, and those that have
        just arrived. Rewrites them if there are too many slices."""
        cells, view = self._directory.cells_of(self._site), part.view
        undone = apart(remaining([EVERYTHING], part.work.done), cells)
        slices = of_port(part.state.pending, port)
        old = [piece for piece in restrict(slices, undone) if self._storage.may_have_rows(piece)]
        if most_slices(old) < MOST_PENDING + 2 * len(cells) or not all(map(self._storage.is_here, old)):
            return [*old, *self._written_apart(port, view.fresh_inside(port, undone), cells)]
        ranges = (cut for one in undone for cut in view.cuts(one, PartLimits(bytes=self._storage.budget.piece)))
        tables = ((cut, self._operator.combine(port, view.unworked(port, [cut]))) for cut in ranges)
        return [piece for cut, rows in tables for piece in self._written_apart(port, rows, cells, cut)]

    def _written_apart(
        self, port: int, rows: pa.Table, cells: Sequence[HashRange], within: HashRange | None = None
    ) -> list[Slice]:
        """Write pending rows of a range (None: of the whole site) as a new run, in one slice per cell and per range
        between cells, without empty slices: the slices show whether rows of a spread hash are pending."""
        written = self._storage.write(port, rows, within)
        if not (written and cells):
            return written
        hashes = hashes_of(rows)
        pieces = restrict(written, apart([EVERYTHING], cells))
        return [piece for piece in pieces if len(hashes[piece.range.rows(hashes)])]

    def _statistics(self, parts: SiteParts, state: SiteState) -> SiteStatistics | None:
        """Return the statistics of the site's groups, keys and cells; None if the job does not ask for them."""
        if self._output is None:
            return None
        collector = SiteStatisticsCollector(self._job, self._subquery, self._site, self._storage, parts, self._output)
        return collector.collect(state)

    def _rows_of(self, slices: Iterable[Slice]) -> int:
        """Return the number of rows in slices; estimated for slices that have not been fetched yet."""
        here, sites = self._storage.is_here, self._directory.sites
        return sum(self._storage.rows_of(piece) if here(piece) else about(piece, sites) for piece in slices)

    def _names_in_use(self, state: SiteState) -> set[str]:
        """Return the names of the runs that this process may read again. Includes the runs of other sites that it may
        get."""
        return {*self._job.runs_in_use, *(piece.run.name for piece in state.all_slices())}


def _spread_anew(storage: Storage, operator: Gridded, state: SiteState, homes: Sequence[HashRange]) -> SiteState:
    """Redistribute the state of a site over its cells after the grid has changed, and write it. Each slice becomes its
    own run, so that the slices expire as before."""
    storage.wait_for((*state.slices, *state.held), None)
    slices, held = (
        tuple(new for old in pieces for new in _rewritten(storage, operator, old, homes))
        for pieces in (state.slices, state.held)
    )
    return replace(state, slices=slices, held=held)


def _rewritten(storage: Storage, operator: Gridded, piece: Slice, homes: Sequence[HashRange]) -> list[Slice]:
    return storage.write(piece.run.port, operator.respread(piece.run.port, storage.read(piece), homes))


class _RunSchemas:
    """The schemas of the runs that a site begins an epoch with, as the query determines them: those of state rows, or
    of rows in the form in which they are sent. The latter, of held rows, is computed on first use, by running the steps
    of their branch on an empty table."""

    def __init__(self, program: Program, subquery: Subquery, state: SiteState) -> None:
        self._program, self._subquery = program, subquery
        self._held_runs = {piece.run.name for piece in state.held}
        self._state_runs = {piece.run.name for piece in state.all_slices()} - self._held_runs
        self._travelled: dict[int, pa.Schema] = {}  # by port

    def of(self, run: RunFile) -> pa.Schema | None:
        """Return the schema of a run; None if the site did not begin the epoch with it."""
        if run.name in self._state_runs:
            return self._subquery.operator.state_schema(run.port)
        if run.name not in self._held_runs:
            return None
        if run.port not in self._travelled:
            self._travelled[run.port] = _travelled_schema(self._program, self._subquery, run.port)
        return self._travelled[run.port]


def _travelled_schema(program: Program, subquery: Subquery, port: int) -> pa.Schema:
    """Return the schema of rows sent to a port; all branches that lead to the port have the same schema."""
    feed = next(feed for feed in program.feeds(subquery.number) if feed.branch.port == port)
    rows = run_steps(_produced(program, feed).empty_table(), feed.branch.steps)
    return travelling(subquery, port, rows, None).schema


def _produced(program: Program, feed: Feed) -> pa.Schema:
    """Return the schema of the rows that a producer gives to its branches."""
    if not feed.is_input:
        return program.subqueries[feed.producer].operator.result_schema
    source = program.inputs[feed.producer]
    schema = pa.schema([source.schema.field(name) for name in source.columns])
    return schema.append(pa.field(ROW_NUMBER, pa.int64())) if source.numbered else schema


def _budget_of(job: EpochJob) -> Budget:
    """Return the budget of a site, and let the mapped state of this process take what its sites may together."""
    budget = budget_for(job.limits.memory, memory_limit(), job.width)
    RESIDENT.limit = max(MEGABYTE, budget.pages * _sites_here(job))  # giving pages back costs more than that saves
    return budget


def _keep_within(job: EpochJob, budget: Budget) -> None:
    """Give freed memory and pages of mapped files back to the system if the next step might exceed the budget. An
    allocator keeps freed memory for its next arrays, which is faster as long as there is enough."""
    if resident_bytes() > BASE + (1 - FREE) * budget.total * _sites_here(job):
        RESIDENT.give_back()
        pa.default_memory_pool().release_unused()


def _sites_here(job: EpochJob) -> int:
    """Return how many sites of one level run in this process; levels run one after another."""
    return max((sum(state is not None for state in sites) for sites in job.sites), default=1)
