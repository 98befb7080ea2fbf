"""The epoch loop of the driver: plan, run, commit, publish, collect. It decides nothing about rows; tasks do."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Protocol

import msgspec

from penstock.balance.admission import EPOCH_SECONDS, Admission, FixedAdmission
from penstock.checkpoint.durable import write_new
from penstock.checkpoint.faults import FaultPoint, reach
from penstock.checkpoint.manifest import FORMAT, Manifest, SiteState, SourceState, SubqueryState, Totals
from penstock.checkpoint.store import Checkpoint
from penstock.config import Settings
from penstock.engine.agreement import disagreement, successes
from penstock.engine.commit import busy_seconds, has_pending, next_manifest, source_marks, source_states
from penstock.engine.job import (
    EpochJob,
    Following,
    Limits,
    Report,
    RouteReport,
    RouteTask,
    SiteReport,
    SourceProgress,
    nothing_follows,
)
from penstock.engine.marks import starting_marks
from penstock.engine.outputs import Outputs
from penstock.engine.rescale import rescaled
from penstock.engine.stopwatch import Stopwatch, epoch_timed
from penstock.errors import CheckpointError, PenstockError
from penstock.events import EpochCommitted, EpochDropped, Event, RunFinished, RunRecovered
from penstock.plan.fingerprint import describe, fingerprint
from penstock.plan.subqueries import Query
from penstock.progress.idle import active_after, begun, floors
from penstock.progress.mark import Mark
from penstock.progress.substreams import low_water_mark
from penstock.sources.base import AcknowledgingReader, Offer, Reader
from penstock.state.directory import Directory, uniform


class Executor(Protocol):
    """Runs the tasks of an epoch somewhere."""

    def run(self, job: EpochJob, routes: Sequence[RouteTask], following: Following = nothing_follows) -> list[Report]:
        """The reports of all tasks. Whoever can, begins with what follows when the splits have been read."""
        ...

    def cancel(self) -> None:
        """Make a running `run` fail soon."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Intake:
    """What the sources give to an epoch, and the tasks that read it."""

    offers: tuple[Offer, ...]
    routes: tuple[RouteTask, ...]

    @property
    def waiting(self) -> int:
        """Rows that are known to be there for later epochs."""
        return sum(offer.waiting for offer in self.offers)


class Outcome(Enum):
    WORKED = "worked"
    IDLE = "idle"
    FINISHED = "finished"


class EpochLoop:
    """Invariant between calls: `manifest` is the newest one of the checkpoint, and all that it names is published.
    `_ahead` is what the next epoch takes in, where the executor has begun to read it."""

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
        self.outputs = Outputs(query, settings, checkpoint)
        self.abandoned = False
        self._ahead: Intake | None = None
        fixed = settings.rows_per_epoch
        self._admission = FixedAdmission(fixed) if fixed else Admission(settings.epoch_seconds or EPOCH_SECONDS)
        self._readers: tuple[Reader, ...] = tuple(s.connector.open(s.schema, s.time) for s in query.sources)  # type: ignore[attr-defined]
        self._activity = begun(len(query.sources), time.monotonic())
        self.manifest = self._recover()

    def abandon(self) -> None:
        """Give the running epoch up; the next step fails, and nothing is committed."""
        self.abandoned = True
        self._executor.cancel()

    # -- recovery ------------------------------------------------------------------------------------------------

    def _recover(self) -> Manifest:
        found = self.checkpoint.newest()
        manifest = self._begin() if found is None else self._continue(found)
        self.outputs.prepare(manifest)
        self.outputs.publish(manifest)
        self.checkpoint.collect(self.outputs.staging().values())
        reach(FaultPoint.RECOVERED)
        return replace(manifest, folders=self.outputs.folders())

    def _begin(self) -> Manifest:
        directory = uniform(self._settings.sites, self._settings.groups_per_site)
        manifest = Manifest(
            format=FORMAT,
            query_id=uuid.uuid4().hex,
            fingerprint=self._fingerprint,
            epoch=0,
            sources=tuple(SourceState(None, {}, False) for _ in self.query.sources),
            subqueries=tuple(_nothing_yet(directory, s.operator.tracks) for s in self.query.program.subqueries),
            staged=(),
            folders=self.outputs.folders(),
            totals=Totals(),
            finished=False,
        )
        self.outputs.check()
        self._describe_query()
        self.checkpoint.commit(manifest)
        return manifest

    def _describe_query(self) -> None:
        path = self.checkpoint.root / "query.json"
        path.unlink(missing_ok=True)
        write_new(path, msgspec.json.format(msgspec.json.encode(describe(self.query.sink)), indent=2))

    def _continue(self, found: Manifest) -> Manifest:
        if found.fingerprint != self._fingerprint:
            raise CheckpointError(
                "this checkpoint belongs to another query",
                detail=f"{self.checkpoint.root / 'query.json'} says which",
                hint="give this query a checkpoint of its own, or run the query that the checkpoint belongs to",
            )
        subqueries = tuple(rescaled(state, self._settings.sites) for state in found.subqueries)
        self._tell(RunRecovered(found.epoch, subqueries != found.subqueries))
        return replace(found, subqueries=subqueries)

    # -- one epoch -----------------------------------------------------------------------------------------------

    def step(self) -> Outcome:
        """Run one epoch if there is anything to do."""
        if self.manifest.finished:
            return Outcome.FINISHED
        watch = Stopwatch()
        intake, self._ahead = self._ahead or self._intake(self.manifest.sources), None
        bounds = self._floors(intake.offers)
        if not self._worth_running(intake.offers, bounds):
            return Outcome.IDLE
        job = self._plan(intake, bounds)
        watch.lap("plan")
        reach(FaultPoint.PLANNED)
        reports = self._run(job, intake)
        reach(FaultPoint.JOB_DONE)
        watch.lap("run")
        before, after = self.manifest, next_manifest(self.manifest, job, intake.offers, reports)
        self._make_true(job, after, watch)
        self._conclude(before, after, intake.waiting, watch.seconds, busy_seconds(reports))
        self._tell(epoch_timed(after.epoch, watch, reports))
        if after.finished:
            self._tell(RunFinished(after.epoch))
        return Outcome.FINISHED if after.finished else Outcome.WORKED

    def _make_true(self, job: EpochJob, after: Manifest, watch: Stopwatch) -> None:
        """Commit, publish, and clean up behind."""
        self.checkpoint.commit(after, {job.outputs[file.output].folder for file in after.staged})
        reach(FaultPoint.COMMITTED)
        self.manifest = after
        watch.lap("commit")
        self.outputs.publish(after)
        self._tell_sources()
        watch.lap("publish")
        self.checkpoint.collect(self.outputs.staging().values())
        reach(FaultPoint.COLLECTED)
        watch.lap("collect")

    def _intake(self, states: Sequence[SourceState]) -> Intake:
        """What comes after these states; sources that have not ended share what an epoch may take in."""
        share = max(1, self._admission.rows // max(1, sum(not state.ended for state in states)))
        offers = tuple(_offer(reader, state, share) for reader, state in zip(self._readers, states, strict=True))
        late_below = source_marks(states)
        splits = [(index, split) for index, offer in enumerate(offers) for split in offer.splits]
        routes = [RouteTask(n, index, split, late_below[index]) for n, (index, split) in enumerate(splits)]
        return Intake(offers, tuple(routes))

    def _look_ahead(
        self, job: EpochJob, intake: Intake, reports: Sequence[Report]
    ) -> tuple[EpochJob, Sequence[RouteTask]] | None:
        """What the next epoch takes in, where more is waiting: when the splits of this one have been read it is known
        what will be late then."""
        routes = [report for report in reports if isinstance(report, RouteReport)]
        if not intake.waiting or len(routes) < len(reports):
            return None
        with suppress(PenstockError):  # it comes again when it is that epoch's turn
            self._ahead = self._intake(source_states(job, intake.offers, routes))
            inputs = tuple(task.input for task in self._ahead.routes)
            return replace(job, epoch=job.epoch + 1, route_inputs=inputs), self._ahead.routes
        return None

    def _floors(self, offers: Sequence[Offer]) -> tuple[Mark, ...]:
        """From where the marks of the sources go on, also where some are idle."""
        now, states, sources = time.monotonic(), self.manifest.sources, self.query.sources
        shown = [{split.substream for split in offer.splits} for offer in offers]
        self._activity = active_after(self._activity, shown, now, [state.marks.keys() for state in states])
        return floors(
            self._activity,
            [(state.marks, state.floor, state.ended) for state in states],
            [None if source.idle is None else source.idle / 1e6 for source in sources],
            now,
            [str(source.schema.field(source.time).type) for source in sources],
        )

    def _worth_running(self, offers: Sequence[Offer], bounds: Sequence[Mark]) -> bool:
        changed = any(
            offer.splits or offer.ended != state.ended or _moved_on(state, offer) or floor > state.floor
            for offer, state, floor in zip(offers, self.manifest.sources, bounds, strict=True)
        )
        return changed or has_pending(self.manifest, self.query.program)

    def _plan(self, intake: Intake, bounds: Sequence[Mark]) -> EpochJob:
        return EpochJob(
            epoch=self.manifest.epoch + 1,
            program=self.query.program,
            route_inputs=tuple(task.input for task in intake.routes),
            sources=tuple(
                SourceProgress(state.marks, offer.ended, offer.finished, floor, state.rows)
                for state, offer, floor in zip(self.manifest.sources, intake.offers, bounds, strict=True)
            ),
            directories=tuple(state.directory for state in self.manifest.subqueries),
            sites=tuple(state.sites for state in self.manifest.subqueries),
            runs=self.checkpoint.runs,
            outputs=self.outputs.places(),
            late_outputs=self.outputs.late,
            limits=Limits(self._settings.item_rows, self._settings.items, self._settings.deadline_seconds),
            divert_bad_rows=self._settings.on_bad_row == "divert",
        )

    def _run(self, job: EpochJob, intake: Intake) -> list[RouteReport | SiteReport]:
        reason: str | None = None
        look_ahead = partial(self._look_ahead, job, intake)
        for _ in range(self._settings.attempts_per_epoch):
            reports = successes(self._executor.run(job, intake.routes, look_ahead))
            reason = disagreement(job, reports)
            if reason is None:
                return reports
            self._tell(EpochDropped(job.epoch, reason))
        raise PenstockError(
            f"epoch {job.epoch} could not be run consistently",
            detail=f"{self._settings.attempts_per_epoch} times tasks disagreed, at last because {reason}",
            hint="look for executors that are lost again and again; the checkpoint is unhurt, start the query again",
        )

    def _tell_sources(self) -> None:
        for reader, state in zip(self._readers, self.manifest.sources, strict=True):
            if isinstance(reader, AcknowledgingReader) and state.progress is not None:
                reader.committed(state.progress)

    def _conclude(self, before: Manifest, after: Manifest, waiting: int, seconds: float, busy: float) -> None:
        rows_in = after.totals.rows_in - before.totals.rows_in
        self._admission = self._admission.after(rows_in, seconds, busy)
        mark = low_water_mark(source_marks(after.sources))
        self._tell(
            EpochCommitted(
                epoch=after.epoch,
                rows_in=rows_in,
                rows_out=after.totals.rows_out - before.totals.rows_out,
                late_rows=after.totals.late_rows - before.totals.late_rows,
                bad_rows=after.totals.bad_rows - before.totals.bad_rows,
                seconds=seconds,
                waiting=waiting,
                low_water_mark=None if mark.ended else mark.at,
                pending=has_pending(after, self.query.program),
            )
        )


def _offer(reader: Reader, state: SourceState, rows: int) -> Offer:
    return Offer((), state.progress or {}, True) if state.ended else reader.offer(state.progress, rows)


def _moved_on(state: SourceState, offer: Offer) -> bool:
    """Whether a source has something to note, with or without rows. At its beginning it may have nothing."""
    return offer.progress != (state.progress or {})


def _nothing_yet(directory: Directory, tracks: int) -> SubqueryState:
    """The state of a subquery that has not seen anything."""
    homes = [directory.ranges_of(site) for site in range(directory.sites)]
    return SubqueryState(directory, tuple(SiteState((), starting_marks(home, tracks)) for home in homes))
