"""Plan an epoch: from the manifest and the input to the job that tasks run. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from penstock.balance.flushing import Flushing
from penstock.connectors.source import Offer
from penstock.engine.driver.commit import has_pending
from penstock.engine.driver.grids import GriddedProgram, under
from penstock.engine.driver.intake import Intake
from penstock.engine.wire.job import EpochJob, Output, SourceProgress, WorkLimits
from penstock.progress.mark import Mark
from penstock.settings import Settings
from penstock.state.model import Manifest, SourceState, SubqueryState


@dataclass(frozen=True)
class EpochPlanner:
    """The part of a query that its epochs share. `runs` is the folder of state, `outputs` says where tasks stage rows,
    and `late_outputs[i]` is the output for late rows of input i."""

    program: GriddedProgram
    settings: Settings
    runs: Path
    outputs: dict[str, Output]
    late_outputs: tuple[str, ...]

    @property
    def flushing(self) -> Flushing:
        """Return which closings sites may defer."""
        return Flushing(self.settings.flush, self.settings.max_delay)

    def worth_running(self, manifest: Manifest, intake: Intake, floors: Sequence[Mark]) -> bool:
        """Return whether an epoch after `manifest` would do anything: there is input, a new mark, a changed directory,
        or pending work. `floors` are the bounds from which the marks of the sources go on."""
        changed = any(
            offer.splits or offer.ended != state.ended or _moved_on(state, offer) or floor > state.floor
            for offer, state, floor in zip(intake.offers, manifest.sources, floors, strict=True)
        )
        moved = any(s.directory != d for s, d in zip(manifest.subqueries, intake.directories, strict=True))
        return changed or moved or has_pending(manifest, self.program.under(intake.directories))

    def job(
        self,
        manifest: Manifest,
        intake: Intake,
        floors: Sequence[Mark],
        idle_seconds: float = 0.0,
        wants_statistics: bool = False,
        told_keys: tuple[frozenset[int], ...] = (),
        merge_bytes: int | None = None,
    ) -> EpochJob:
        """Return the job of the epoch after `manifest`, with the state of all sites under the directories of `intake`.
        Sites merge runs only as long as all that they write takes at most `merge_bytes` together (None: no bound)."""
        program, states = self.program.under(intake.directories), manifest.subqueries
        operators = [subquery.operator for subquery in program.subqueries]
        changed = [n for n, state in enumerate(states) if state.directory.grid != intake.directories[n].grid]
        return EpochJob(
            epoch=manifest.epoch + 1,
            program=program,
            route_inputs=tuple(task.input for task in intake.routes),
            sources=tuple(map(_source_progress, manifest.sources, intake.offers, floors)),
            directories=intake.directories,
            sites=tuple(state.sites for state in map(under, states, intake.directories, operators)),
            runs=self.runs,
            outputs=self.outputs,
            late_outputs=self.late_outputs,
            limits=self.limits(idle_seconds, _per_site(merge_bytes, states)),
            divert_bad_rows=self.settings.on_bad_row == "divert",
            collect_statistics=wants_statistics,
            cache=self.settings.cache,
            cache_bytes=self.settings.cache_bytes,
            told_keys=told_keys,
            regridded=frozenset(changed),
        )

    def limits(self, idle_seconds: float, merge_bytes: int | None = None) -> WorkLimits:
        """Return the bounds on the work of a site in an epoch with so many idle seconds, and bytes to merge runs
        with."""
        s = self.settings
        return WorkLimits(
            item_rows=s.item_rows,
            items=s.items,
            seconds=s.deadline_seconds,
            flushing=self.flushing,
            idle_seconds=idle_seconds,
            buffer_rows=s.buffer_rows,
            memory=s.memory or 0,
            merge_bytes=merge_bytes,
        )

    def ahead(self, job: EpochJob, intake: Intake) -> EpochJob:
        """Return what routing needs of the epoch after `job`, whose input is `intake`, while `job` is still running."""
        return replace(
            job,
            epoch=job.epoch + 1,
            program=self.program.under(intake.directories),
            route_inputs=tuple(task.input for task in intake.routes),
            directories=intake.directories,
        )


def _per_site(size: int | None, states: Sequence[SubqueryState]) -> int | None:
    return None if size is None else size // max(1, sum(len(state.sites) for state in states))


def _source_progress(state: SourceState, offer: Offer, floor: Mark) -> SourceProgress:
    return SourceProgress(state.marks, offer.ended, offer.finished, floor, state.rows)


def _moved_on(state: SourceState, offer: Offer) -> bool:
    """Return whether the progress of a source has changed, with or without rows. Before its first rows it may have
    none."""
    return offer.progress != (state.progress or {})
