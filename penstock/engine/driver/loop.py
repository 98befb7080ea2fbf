"""The epoch loop of the driver: plan, run, commit, publish, collect. It never looks at rows; tasks do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from functools import partial

from penstock.balance.controller import controllers
from penstock.balance.decisions import Change
from penstock.balance.flushing import IdleBudget
from penstock.balance.intake.admission import EPOCH_SECONDS
from penstock.balance.intake.disk import DiskBudget
from penstock.balance.intake.lead import LeadOfSource
from penstock.balance.stats import RoundStats
from penstock.clock import SYSTEM_CLOCK, Clock, Stopwatch
from penstock.engine.driver.adapt import Adaptation
from penstock.engine.driver.commit import epoch_committed, has_pending, next_manifest, source_states
from penstock.engine.driver.disk import DiskGuard
from penstock.engine.driver.effort import Explosions, epoch_timed, flushed_seconds, only_put_off
from penstock.engine.driver.executor import Executor, Room, disagreement, inconsistent, successes
from penstock.engine.driver.fetch_costs import FetchCosts
from penstock.engine.driver.grids import GriddedProgram
from penstock.engine.driver.intake import Intake, SourceIntake
from penstock.engine.driver.parking import Ranges
from penstock.engine.driver.planner import EpochPlanner
from penstock.engine.driver.recovery import Recovered, ignore
from penstock.engine.task.site.loads import round_of
from penstock.engine.wire.job import (
    EpochJob,
    LastEpoch,
    Report,
    RouteReport,
    RouteTask,
    SiteReport,
)
from penstock.errors import AttemptFailed, LostWorker, PenstockError
from penstock.events import EpochDropped, Event, RunFinished, WorkerDied
from penstock.operators.protocol import ProbingOperator
from penstock.progress.mark import Mark
from penstock.state.directory import Directory
from penstock.state.model import Manifest, SourceState
from penstock.storage.faults import FaultPoint, reach
from penstock.storage.memory import budget_for, memory_limit


class Outcome(Enum):
    """The result of one step of the loop: an epoch was committed, there was nothing to do, or the query has
    finished."""

    WORKED = "worked"
    IDLE = "idle"
    FINISHED = "finished"


class EpochLoop:
    """The epoch loop of one run. It starts from what `recover` returns, and does nothing before the first `step`.

    Invariant between calls: `manifest` is the newest one of the checkpoint, and all files that it names are published.
    `_ahead` is the input of the next epoch if the executor has started to read it.
    """

    def __init__(
        self,
        recovered: Recovered,
        executor: Executor,
        emit: Callable[[Event], None] = ignore,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        query, settings = recovered.query, recovered.settings
        self.query, self.checkpoint, self.manifest = query, recovered.checkpoint, recovered.manifest
        self.outputs, self._settings = recovered.outputs, settings
        self._executor, self._emit, self._clock = executor, emit, clock
        self.abandoned = False
        self._ahead: Intake | None = None
        self.watched, self.last = False, LastEpoch()
        self.stats: tuple[RoundStats, ...] = ()  # newest statistics of sites and groups
        self.stats_epoch: int | None = None  # the epoch of these
        self._last_epoch: Stopwatch | None = None  # started at the end of the last epoch
        self._planner = EpochPlanner(
            GriddedProgram(query.program), settings, self.checkpoint.runs, self.outputs.places(), self.outputs.late
        )
        self._source_intake = SourceIntake(query.sources, recovered.readers, self.manifest.sources, settings, clock)
        self._explosions = Explosions(len(query.program.subqueries), emit)
        self._idle_budget = IdleBudget(settings.epoch_seconds or EPOCH_SECONDS)
        self._fetch_costs = FetchCosts(settings)
        self.room = Room(settings.on_full == "wait", emit)
        self._disk_guard = DiskGuard(self.checkpoint, self.outputs, settings.disk, emit)
        self._adaptation = Adaptation(
            [state.directory for state in self.manifest.subqueries],
            [subquery.operator for subquery in query.program.subqueries],
            controllers(settings, len(query.program.subqueries)),
            emit,
        )

    def change(self, subquery: int, change: Change) -> str | None:
        """Change the directory of a subquery on request, from the first epoch that is not routed yet. Return the reason
        if that is impossible, otherwise None."""
        state = self.manifest.subqueries[subquery]
        return self._adaptation.by_hand(self.manifest.epoch, subquery, change, state)

    def scale(self, subqueries: Sequence[int], sites: int) -> bool:
        """Give some subqueries a number of sites, all at once. Return False if hashes that are spread over more sites
        must be gathered first; the change then follows by itself."""
        return self._adaptation.scale(self.manifest.epoch, subqueries, sites, self.manifest.subqueries)

    def rebalance(self, subquery: int) -> None:
        """Even out the sites of a subquery after the next epoch, or after a few if they are short."""
        self._adaptation.rebalance(subquery)

    def capacity(self, subquery: int) -> int:
        """Return the rows that may be pending at a site; 0: no bound, or the operator has no pending rows."""
        operator = self.query.program.subqueries[subquery].operator
        return self._settings.buffer_rows or 0 if isinstance(operator, ProbingOperator) else 0

    @property
    def disk(self) -> DiskBudget:
        """Return what the checkpoint takes on disk, and may take."""
        return self._disk_guard.budget

    @property
    def directories(self) -> tuple[Directory, ...]:
        """Return the directories of the next epoch that will be planned."""
        return self._adaptation.directories

    def abandon(self) -> None:
        """Cancel the running epoch: the next step fails, and nothing is committed."""
        self.abandoned = True
        self._executor.cancel()

    # -- one epoch -----------------------------------------------------------------------------------------------

    def step(self) -> Outcome:
        """Run one epoch if there is any input or work. One for which there is no room on the disk is planned again with
        fewer rows."""
        with self.checkpoint.explaining():
            self._disk_guard.begin(self.manifest)
            while (outcome := self._step()) is None:
                pass
            return outcome

    def _step(self) -> Outcome | None:
        """Plan and run one epoch; return None if it does not fit on the disk, and fewer rows may."""
        if self.manifest.finished:
            return Outcome.FINISHED
        watch, leads = Stopwatch(self._clock), self._source_intake.leads
        if self._ahead is None:
            self._apply_due_changes()
        intake, self._ahead = self._ahead or self._intake(self.manifest.sources, self._source_intake.leads), None
        self._source_intake.leads = intake.leads
        floors = self._source_intake.floors(intake, self.manifest.sources)
        clean_up = self._planner.clean_up(self.manifest, intake, self._adaptation.asked_clean_up)
        if not (self.disk.holds_all or self._planner.worth_running(self.manifest, intake, floors, clean_up)):
            return Outcome.IDLE
        job = self._job(intake, floors, clean_up)
        watch.lap("plan")
        reach(FaultPoint.PLANNED)
        reports = self._run(job, intake)
        reach(FaultPoint.JOB_DONE)
        watch.lap("run")
        before, after = self.manifest, next_manifest(self.manifest, job, intake.offers, reports)
        if not self.room.granted(after.epoch, lambda: self._disk_guard.admits(before, after, intake)):
            self._ahead, self._source_intake.leads = None, leads
            return None
        self._commit(after, watch)
        self._source_intake.concluded(after.totals.rows_in - before.totals.rows_in, watch.seconds, reports)
        taken = (intake.asked, after.totals.rows_in - before.totals.rows_in)
        self._disk_guard.committed(after, self._source_intake.admissible(self._adaptation.directories), taken)
        self._idle_budget = self._idle_budget.after(watch.seconds, flushed_seconds(reports))
        pending = has_pending(after, self.query.program) and not only_put_off(self._planner.flushing, reports)
        pending |= any(clean_up) and any(site.parked for state in after.subqueries for site in state.sites)
        used = self.disk.used
        self._emit(epoch_committed(before, after, intake.waiting, watch.seconds, pending, reports, used))
        self._explosions.observe(after.epoch, reports)
        self._observe(job, reports, watch.seconds)
        self._emit(epoch_timed(after.epoch, watch, reports))
        if after.finished:
            self._emit(RunFinished(after.epoch))
        return Outcome.FINISHED if after.finished else Outcome.WORKED

    def _apply_due_changes(self) -> None:
        """Gather hashes that are ready for it, and change to the number of sites that the run was started with if a
        spread key prevented that before."""
        now, sites, every = self.manifest, self._settings.sites, range(len(self.manifest.subqueries))
        self._adaptation.apply_due_changes(now.epoch, now.subqueries)
        if sites != now.asked_sites and self._adaptation.scaled(now.epoch, every, sites, now.subqueries):
            self.manifest = replace(now, asked_sites=sites)

    def _observe(self, job: EpochJob, reports: Sequence[RouteReport | SiteReport], seconds: float) -> None:
        """Pass the statistics of an epoch to the controllers if sites reported them. The idle time between two epochs
        counts as time, too: with little input, sites are busy for a small part of it."""
        passed = seconds if self._last_epoch is None else max(seconds, self._last_epoch.seconds)
        self._last_epoch = Stopwatch(self._clock)
        sites = tuple(report for report in reports if isinstance(report, SiteReport))
        self.last = LastEpoch(sites, passed, passed - seconds)
        self._fetch_costs.observe(reports)
        if not job.collect_statistics:
            return self._adaptation.skip(passed)
        rest, parks = self.last.rest, self._settings.overflow != "read"
        stats = tuple(
            round_of(job, n, reports, passed, self.capacity(n), self._state_limit(directory), rest, parks)
            for n, directory in enumerate(job.directories)
        )
        stats = tuple(self._fetch_costs.noted(of_subquery, n, reports) for n, of_subquery in enumerate(stats))
        self.stats = tuple(map(RoundStats.remembering, stats, self.stats)) if self.stats else stats
        self.watched, self.stats_epoch = False, job.epoch
        self._adaptation.observe(job.epoch, self.stats)

    def _state_limit(self, directory: Directory) -> int:
        """Return the limit on active state in bytes (0: none). If state is never parked, only `state_bytes` sets
        one."""
        s = self._settings
        if s.state_bytes or s.overflow == "read":
            return s.state_bytes or 0
        return budget_for(s.memory, memory_limit(), directory.sites).total

    def _commit(self, after: Manifest, watch: Stopwatch) -> None:
        """Commit the epoch, publish its rows, and remove files that are no longer needed."""
        folders = self.outputs.to_sync(self.manifest, after)
        self.room.attempt(after.epoch, lambda: self.checkpoint.commit(after, folders))
        reach(FaultPoint.COMMITTED)
        self.manifest = after
        watch.lap("commit")
        self.room.attempt(after.epoch, lambda: self.outputs.publish(after))
        self._source_intake.committed(after.sources)
        watch.lap("publish")
        self.checkpoint.collect(self.outputs.staging().values())
        reach(FaultPoint.COLLECTED)
        watch.lap("collect")

    def _intake(self, states: Sequence[SourceState], leads: Sequence[LeadOfSource], on_the_way: int = 0) -> Intake:
        return self._source_intake.intake(states, leads, self._adaptation.directories, on_the_way, self.disk)

    def _look_ahead(
        self, job: EpochJob, intake: Intake, reports: Sequence[Report]
    ) -> tuple[EpochJob, Sequence[RouteTask]] | None:
        """Return the job and the splits of the next epoch if more rows are waiting; None otherwise. Called when all
        splits of this epoch have been read: only then is it known which rows will be late."""
        routes = [report for report in reports if isinstance(report, RouteReport)]
        if not intake.waiting or len(routes) < len(reports) or self._adaptation.has_due_changes:
            return None
        if self.disk.most_rows is not None:
            return None  # what comes next depends on whether this epoch fits on the disk
        with suppress(PenstockError):  # the next epoch will raise it again
            self._ahead = self._intake(source_states(job, intake.offers, routes), intake.leads, intake.rows)
            return self._planner.ahead(job, self._ahead), self._ahead.routes
        return None

    def _job(self, intake: Intake, floors: Sequence[Mark], clean_up: tuple[Ranges, ...]) -> EpochJob:
        """Return the job of the next epoch."""
        idle, wants = self._idle_budget.seconds(intake.waiting), self._adaptation.wants_statistics or self.watched
        return self._planner.job(
            self.manifest,
            intake,
            floors,
            idle,
            wants,
            self._explosions.known,
            clean_up=clean_up,
            park=self._adaptation.take_parks(),
            merge_bytes=self.disk.merge_bytes,
        )

    def _run(self, job: EpochJob, intake: Intake) -> list[RouteReport | SiteReport]:
        """Run the job until an attempt succeeds and its tasks agree, and return their reports. This is the only place
        that repeats an epoch after a lost worker or a disagreement (`Room` repeats it while a disk is full). Raise the
        last error after too many attempts."""
        attempts = self._settings.attempts_per_epoch
        failed: PenstockError = inconsistent(job.epoch, attempts, "")
        for number in range(1, attempts + 1):
            try:
                reports = self._attempt(job, intake)
                reason = disagreement(job, reports)
                if reason is None:
                    return reports
                failed = inconsistent(job.epoch, attempts, reason)
            except AttemptFailed as error:
                failed, reason = error, error.detail
                if isinstance(error, LostWorker):
                    self._emit(WorkerDied(job.epoch, error.worker, reason, number))
            again = number < attempts and not self.abandoned
            self._emit(EpochDropped(job.epoch, reason, number, again))
            if not again:
                break
        raise failed

    def _attempt(self, job: EpochJob, intake: Intake) -> list[RouteReport | SiteReport]:
        """Run the job once, or again while a disk is full if the run waits for that."""
        return self.room.attempt(
            job.epoch,
            lambda: successes(self._executor.run(job, intake.routes, partial(self._look_ahead, job, intake))),
            partial(self.checkpoint.discard, job.epoch, self.outputs.staging().values()),
        )
