"""Plan an epoch: from the manifest and the input to the job that tasks run. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from penstock.balance.flushing import Flushing
from penstock.balance.intake.admission import EPOCH_SECONDS
from penstock.connectors.source import Offer
from penstock.engine.driver.commit import has_pending
from penstock.engine.driver.grids import GriddedProgram, under
from penstock.engine.driver.intake import Intake
from penstock.engine.driver.parking import CleanUpRule, Ranges, with_parked
from penstock.engine.wire.job import EpochJob, Output, SourceProgress, WorkLimits
from penstock.progress.mark import Mark
from penstock.settings import Settings
from penstock.state.hash_ranges import HashRange
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

    def worth_running(
        self, manifest: Manifest, intake: Intake, floors: Sequence[Mark], clean_up: tuple[Ranges, ...] = ()
    ) -> bool:
        """Return whether an epoch after `manifest` would do anything: there is input, a new mark, a changed directory,
        pending work, or something to clean up. `floors` are the bounds from which the marks of the sources go on."""
        changed = any(
            offer.splits or offer.ended != state.ended or _moved_on(state, offer) or floor > state.floor
            for offer, state, floor in zip(intake.offers, manifest.sources, floors, strict=True)
        )
        moved = any(s.directory != d for s, d in zip(manifest.subqueries, intake.directories, strict=True))
        parked = any(clean_up)
        return changed or moved or parked or has_pending(manifest, self.program.under(intake.directories))

    def job(
        self,
        manifest: Manifest,
        intake: Intake,
        floors: Sequence[Mark],
        idle_seconds: float = 0.0,
        wants_statistics: bool = False,
        reported_keys: tuple[frozenset[int], ...] = (),
        clean_up: tuple[Ranges, ...] = (),
        park: Sequence[Sequence[HashRange]] = (),
        merge_bytes: int | None = None,
    ) -> EpochJob:
        """Return the job of the epoch after `manifest`, with the state of all sites under the directories of `intake`.
        In each subquery, some ranges are to be parked, others to be cleaned up. Sites merge runs only as long as all
        that they write takes at most `merge_bytes` together (None: no bound)."""
        program, states = self.program.under(intake.directories), manifest.subqueries
        operators = [subquery.operator for subquery in program.subqueries]
        changed = [n for n, state in enumerate(states) if state.directory.grid != intake.directories[n].grid]
        begin = list(map(under, states, intake.directories, operators))
        if not all(offer.ended for offer in intake.offers):  # else everything is cleaned up
            for number, ranges in enumerate(park):
                if number not in changed:  # its rows are not in their cells yet
                    begin[number] = with_parked(begin[number], ranges)
        return EpochJob(
            epoch=manifest.epoch + 1,
            program=program,
            route_inputs=tuple(task.input for task in intake.routes),
            sources=tuple(map(_source_progress, manifest.sources, intake.offers, floors)),
            directories=intake.directories,
            sites=tuple(state.sites for state in begin),
            runs=self.runs,
            outputs=self.outputs,
            late_outputs=self.late_outputs,
            limits=self.limits(idle_seconds, intake, _per_site(merge_bytes, states)),
            divert_bad_rows=self.settings.on_bad_row == "divert",
            collect_statistics=wants_statistics,
            cache=self.settings.cache,
            cache_bytes=self.settings.cache_bytes,
            reported_keys=reported_keys,
            regridded=frozenset(changed),
            clean_up=clean_up,
        )

    def clean_up(self, manifest: Manifest, intake: Intake, asked: Sequence[Sequence[HashRange]]) -> tuple[Ranges, ...]:
        """Return the ranges of each subquery whose parked state is cleaned up next, among them those `asked` for."""
        if not any(site.parked for state in manifest.subqueries for site in state.sites):
            return ()
        rule = CleanUpRule(self.settings.overflow, self.settings.max_delay)
        program = self.program.under(intake.directories)
        return rule.ranges(manifest, program, intake.directories, asked, idle=not intake.routes)

    def limits(self, idle_seconds: float, intake: Intake, merge_bytes: int | None = None) -> WorkLimits:
        """Return the bounds on the work of a site in an epoch with so many seconds for deferred work, and bytes to
        merge runs with. A clean-up gets half of the time, or all of it if there is no input."""
        s = self.settings
        length = s.deadline_seconds or s.epoch_seconds or EPOCH_SECONDS
        return WorkLimits(
            item_rows=s.item_rows,
            items=s.items,
            seconds=s.deadline_seconds,
            flushing=self.flushing,
            idle_seconds=idle_seconds,
            buffer_rows=s.buffer_rows,
            memory=s.memory or 0,
            clean_up_seconds=length / 2 if intake.routes else length,
            merge_bytes=merge_bytes,
            more_waits=intake.waiting > 0,
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
