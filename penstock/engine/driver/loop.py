"""The epoch loop of the driver: plan, run, commit, publish, collect. It never looks at rows; tasks do."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from functools import partial

from penstock.balance.controller import controllers
from penstock.balance.decisions import Change
from penstock.balance.flushing import Flushing, IdleBudget
from penstock.balance.intake.admission import EPOCH_SECONDS
from penstock.balance.intake.lead import LeadOfSource
from penstock.balance.stats import RoundStats
from penstock.checkpoint.store import Checkpoint
from penstock.connectors.source import Offer
from penstock.engine.driver.adapt import Adaptation
from penstock.engine.driver.commit import epoch_committed, has_pending, next_manifest, nothing_yet, source_states
from penstock.engine.driver.effort import Explosions, flushed_seconds, only_put_off
from penstock.engine.driver.executor import Executor, Room, disagreement, successes
from penstock.engine.driver.gathering import fits
from penstock.engine.driver.grids import GriddedProgram, first_directory, under
from penstock.engine.driver.intake import Intake, SourceIntake
from penstock.engine.driver.move_state import rescaled
from penstock.engine.driver.outputs import Outputs
from penstock.engine.driver.query_file import another_query, describe_query, refuse_unfit
from penstock.engine.stopwatch import Stopwatch, epoch_timed
from penstock.engine.task.site.loads import round_of
from penstock.engine.wire.job import (
    EpochJob,
    LastEpoch,
    Report,
    RouteReport,
    RouteTask,
    SiteReport,
    SourceProgress,
    WorkLimits,
)
from penstock.errors import PenstockError
from penstock.events import EpochDropped, Event, RunFinished, RunRecovered
from penstock.plan.compile.subqueries import Query
from penstock.plan.fingerprint import fingerprint
from penstock.progress.mark import Mark
from penstock.settings import Settings
from penstock.state.directory import Directory
from penstock.state.model import Manifest, SourceState, Totals
from penstock.storage.faults import FaultPoint, reach


class Outcome(Enum):
    """The result of one step of the loop: an epoch was committed, there was nothing to do, or the query has
    finished."""

    WORKED = "worked"
    IDLE = "idle"
    FINISHED = "finished"


class EpochLoop:
    """The epoch loop of one run.

    Invariant between calls: `manifest` is the newest one of the checkpoint, and all files that it names are published.
    `_ahead` is the input of the next epoch if the executor has started to read it.
    """

    def __init__(
        self,
        query: Query,
        checkpoint: Checkpoint,
        executor: Executor,
        settings: Settings,
        tell: Callable[[Event], None] = lambda event: None,
    ) -> None:
        self.query, self.checkpoint, self._executor, self._settings, self._tell = (
            query, checkpoint, executor, settings, tell,
        )  # fmt: skip
        self._fingerprint = fingerprint(query.sink, query.options)
        self.outputs = Outputs(query, settings, checkpoint.root)
        self.abandoned = False
        self._ahead: Intake | None = None
        self.watched, self.last = False, LastEpoch()
        self.figures, self.figures_epoch = tuple[RoundStats, ...](), -1  # newest statistics of sites and groups
        self._last_epoch: Stopwatch | None = None  # started at the end of the last epoch
        self._program = GriddedProgram(query.program)
        self._inlet = SourceIntake(query.sources, settings)
        self._explosions = Explosions(len(query.program.subqueries), tell)
        self._flushing = Flushing(settings.flush, settings.max_delay)
        self._leisure = IdleBudget(settings.epoch_seconds or EPOCH_SECONDS)
        self.room = Room(settings.on_full == "wait", tell)
        with checkpoint.explaining():
            self.manifest = self._recover()
        self._inlet.begin(self.manifest.sources)
        self._adaptation = Adaptation(
            [state.directory for state in self.manifest.subqueries],
            [subquery.operator for subquery in query.program.subqueries],
            controllers(settings, len(query.program.subqueries)),
            tell,
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
        probes = self.query.program.subqueries[subquery].operator.probes
        return self._settings.buffer_rows or 0 if probes else 0

    @property
    def directories(self) -> tuple[Directory, ...]:
        """Return the directories of the next epoch that will be planned."""
        return self._adaptation.directories

    def abandon(self) -> None:
        """Cancel the running epoch: the next step fails, and nothing is committed."""
        self.abandoned = True
        self._executor.cancel()

    # -- recovery ------------------------------------------------------------------------------------------------

    def _recover(self) -> Manifest:
        """Return the manifest to go on from, after publishing what it names and removing files of uncommitted
        epochs."""
        found = self.checkpoint.newest()
        manifest = self._begin() if found is None else self._continue(found)
        self.outputs.prepare(manifest)
        self.outputs.publish(manifest)
        staging = (*self.outputs.staging().values(), *self.outputs.left_staging(manifest))
        self.checkpoint.collect(staging, recovering=True)
        reach(FaultPoint.RECOVERED)
        return replace(manifest, folders=self.outputs.folders())

    def _begin(self) -> Manifest:
        """Create a new checkpoint and return its first manifest."""
        sites, groups = self._settings.sites, self._settings.groups_per_site
        operators = [subquery.operator for subquery in self.query.program.subqueries]
        manifest = Manifest(
            query_id=uuid.uuid4().hex,
            fingerprint=self._fingerprint,
            epoch=0,
            sources=tuple(SourceState(None, {}, False) for _ in self.query.sources),
            subqueries=tuple(nothing_yet(first_directory(o, sites, groups), o.tracks) for o in operators),
            staged=(),
            folders=self.outputs.folders(),
            totals=Totals(),
            finished=False,
            asked_sites=self._settings.sites,
        )
        self.outputs.check()
        describe_query(self.checkpoint.root, self.query)
        self.checkpoint.commit(manifest)
        return manifest

    def _continue(self, found: Manifest) -> Manifest:
        """Return the manifest found, if it belongs to this query, with the number of sites that the run asks for."""
        if found.fingerprint != self._fingerprint:
            raise another_query(self.checkpoint.root, self.query)
        refuse_unfit(found, self.query.program, self.outputs.folders())
        sites, asked = self._settings.sites, found.asked_sites
        subqueries = found.subqueries
        if sites != asked and all(fits(state, sites) for state in subqueries):
            subqueries, asked = tuple(rescaled(state, sites) for state in subqueries), sites
        self._tell(RunRecovered(found.epoch, subqueries != found.subqueries))
        return replace(found, subqueries=subqueries, asked_sites=asked)

    # -- one epoch -----------------------------------------------------------------------------------------------

    def step(self) -> Outcome:
        """Run one epoch if there is any input or work."""
        with self.checkpoint.explaining():
            return self._step()

    def _step(self) -> Outcome:
        if self.manifest.finished:
            return Outcome.FINISHED
        watch = Stopwatch()
        if self._ahead is None:
            self._settle()
        intake, self._ahead = self._ahead or self._intake(self.manifest.sources, self._inlet.standings), None
        self._inlet.standings = intake.standings
        bounds = self._inlet.floors(intake, self.manifest.sources)
        if not self._worth_running(intake, bounds):
            return Outcome.IDLE
        job = self._plan(intake, bounds)
        watch.lap("plan")
        reach(FaultPoint.PLANNED)
        reports = self._run(job, intake)
        reach(FaultPoint.JOB_DONE)
        watch.lap("run")
        before, after = self.manifest, next_manifest(self.manifest, job, intake.offers, reports)
        self._make_true(after, watch)
        self._inlet.concluded(after.totals.rows_in - before.totals.rows_in, watch.seconds, reports)
        self._leisure = self._leisure.after(watch.seconds, flushed_seconds(reports))
        pending = has_pending(after, self.query.program) and not only_put_off(self._flushing, reports)
        self._tell(epoch_committed(before, after, intake.waiting, watch.seconds, pending, reports))
        self._explosions.hear(after.epoch, reports)
        self._hear_of(job, reports, watch.seconds)
        self._tell(epoch_timed(after.epoch, watch, reports))
        if after.finished:
            self._tell(RunFinished(after.epoch))
        return Outcome.FINISHED if after.finished else Outcome.WORKED

    def _settle(self) -> None:
        """Gather hashes that are ready for it, and change to the number of sites that the run was started with if a
        spread key prevented that before."""
        now, sites, every = self.manifest, self._settings.sites, range(len(self.manifest.subqueries))
        self._adaptation.settle(now.epoch, now.subqueries)
        if sites != now.asked_sites and self._adaptation.scaled(now.epoch, every, sites, now.subqueries):
            self.manifest = replace(now, asked_sites=sites)

    def _hear_of(self, job: EpochJob, reports: Sequence[RouteReport | SiteReport], seconds: float) -> None:
        """Pass the statistics of an epoch to the controllers if sites reported them. The idle time between two epochs
        counts as time, too: with little input, sites are busy for a small part of it."""
        passed = seconds if self._last_epoch is None else max(seconds, self._last_epoch.seconds)
        self._last_epoch = Stopwatch()
        sites = tuple(report for report in reports if isinstance(report, SiteReport))
        self.last = LastEpoch(sites, passed, passed - seconds)
        if not job.tell_loads:
            return self._adaptation.passed(passed)
        every, memory, rest = range(len(job.directories)), self._settings.state_bytes or 0, self.last.rest
        self.figures = tuple(round_of(job, n, reports, passed, self.capacity(n), memory, rest) for n in every)
        self.watched, self.figures_epoch = False, job.epoch
        self._adaptation.heard(job.epoch, self.figures)

    def _make_true(self, after: Manifest, watch: Stopwatch) -> None:
        """Commit the epoch, publish its rows, and remove files that are no longer needed."""
        folders = self.outputs.to_sync(self.manifest, after)
        self.room.attempt(after.epoch, lambda: self.checkpoint.commit(after, folders))
        reach(FaultPoint.COMMITTED)
        self.manifest = after
        watch.lap("commit")
        self.room.attempt(after.epoch, lambda: self.outputs.publish(after))
        self._inlet.committed(after.sources)
        watch.lap("publish")
        self.checkpoint.collect(self.outputs.staging().values())
        reach(FaultPoint.COLLECTED)
        watch.lap("collect")

    def _intake(self, states: Sequence[SourceState], standings: Sequence[LeadOfSource], on_the_way: int = 0) -> Intake:
        return self._inlet.intake(states, standings, self._adaptation.directories, on_the_way)

    def _look_ahead(
        self, job: EpochJob, intake: Intake, reports: Sequence[Report]
    ) -> tuple[EpochJob, Sequence[RouteTask]] | None:
        """Return the job and the splits of the next epoch if more rows are waiting; None otherwise. Called when all
        splits of this epoch have been read: only then is it known which rows will be late."""
        routes = [report for report in reports if isinstance(report, RouteReport)]
        if not intake.waiting or len(routes) < len(reports) or self._adaptation.settling:
            return None
        with suppress(PenstockError):  # the next epoch will raise it again
            self._ahead = self._intake(source_states(job, intake.offers, routes), intake.standings, intake.rows)
            inputs = tuple(task.input for task in self._ahead.routes)
            program = self._program.under(self._ahead.directories)
            following = replace(
                job, epoch=job.epoch + 1, program=program, route_inputs=inputs, directories=self._ahead.directories
            )
            return following, self._ahead.routes
        return None

    def _worth_running(self, intake: Intake, bounds: Sequence[Mark]) -> bool:
        """Return whether an epoch would do anything: there is input, a new mark, a changed directory, or pending
        work."""
        changed = any(
            offer.splits or offer.ended != state.ended or _moved_on(state, offer) or floor > state.floor
            for offer, state, floor in zip(intake.offers, self.manifest.sources, bounds, strict=True)
        )
        moved = any(s.directory != d for s, d in zip(self.manifest.subqueries, intake.directories, strict=True))
        return changed or moved or has_pending(self.manifest, self.query.program)

    def _plan(self, intake: Intake, bounds: Sequence[Mark]) -> EpochJob:
        """Return the job of the next epoch."""
        program, states = self._program.under(intake.directories), self.manifest.subqueries
        operators = [subquery.operator for subquery in program.subqueries]
        subqueries = list(map(under, states, intake.directories, operators))
        changed = [n for n, state in enumerate(states) if state.directory.grid != intake.directories[n].grid]
        return EpochJob(
            epoch=self.manifest.epoch + 1,
            program=program,
            route_inputs=tuple(task.input for task in intake.routes),
            sources=tuple(
                SourceProgress(state.marks, offer.ended, offer.finished, floor, state.rows)
                for state, offer, floor in zip(self.manifest.sources, intake.offers, bounds, strict=True)
            ),
            directories=intake.directories,
            sites=tuple(state.sites for state in subqueries),
            runs=self.checkpoint.runs,
            outputs=self.outputs.places(),
            late_outputs=self.outputs.late,
            limits=self._limits(intake.waiting),
            divert_bad_rows=self._settings.on_bad_row == "divert",
            tell_loads=self._adaptation.listens or self.watched,
            cache=self._settings.cache,
            cache_bytes=self._settings.cache_bytes,
            told_keys=self._explosions.known,
            regridded=frozenset(changed),
        )

    def _limits(self, waiting: int) -> WorkLimits:
        s, idle = self._settings, self._leisure.seconds(waiting)
        return WorkLimits(s.item_rows, s.items, s.deadline_seconds, self._flushing, idle, s.buffer_rows)

    def _run(self, job: EpochJob, intake: Intake) -> list[RouteReport | SiteReport]:
        """Run the job until its tasks agree, and return their reports; raise an error after too many attempts."""
        reason: str | None = None
        look_ahead = partial(self._look_ahead, job, intake)
        for _ in range(self._settings.attempts_per_epoch):
            reports = self.room.attempt(
                job.epoch,
                lambda: successes(self._executor.run(job, intake.routes, look_ahead)),
                partial(self.checkpoint.discard, job.epoch),
            )
            reason = disagreement(job, reports)
            if reason is None:
                return reports
            self._tell(EpochDropped(job.epoch, reason))
        raise PenstockError(
            f"epoch {job.epoch} could not be run consistently",
            detail=f"{self._settings.attempts_per_epoch} attempts: tasks disagreed each time; at last {reason}",
            hint="check for executors that are lost repeatedly; the checkpoint is intact, restart the query",
        )


def _moved_on(state: SourceState, offer: Offer) -> bool:
    """Return whether the progress of a source has changed, with or without rows. Before its first rows it may have
    none."""
    return offer.progress != (state.progress or {})
