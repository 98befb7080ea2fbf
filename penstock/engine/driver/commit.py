"""Compute the manifest that commits an epoch from the reports of its tasks. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.connectors.source import Offer
from penstock.engine.driver.effort import Reports, whole_backlog
from penstock.engine.wire.job import EpochJob, RouteReport, SiteReport
from penstock.events import EpochCommitted
from penstock.operators.generations import Generational
from penstock.plan.program import Feed, Program, Subquery
from penstock.progress.mark import END, Mark, Marks, advance, at, low_water_mark, stream_mark
from penstock.state.directory import Directory
from penstock.state.hash_ranges import EVERYTHING, remaining
from penstock.state.model import (
    Manifest,
    SiteState,
    SourceState,
    SubqueryState,
    Totals,
    behind,
    least,
    restricted,
    starting_marks,
)
from penstock.state.runs import about_bytes, restrict


def next_manifest(
    before: Manifest, job: EpochJob, offers: Sequence[Offer], reports: Sequence[RouteReport | SiteReport]
) -> Manifest:
    """Return the manifest after an epoch, given the reports of all its tasks."""
    routes = [r for r in reports if isinstance(r, RouteReport)]
    sites = [r for r in reports if isinstance(r, SiteReport)]
    after = before.next(
        sources=source_states(job, offers, routes),
        subqueries=tuple(_subquery_state(job, number, sites) for number in range(len(job.directories))),
        staged=tuple(file for report in reports for file in report.staged),
        totals=before.totals.plus(epoch_totals(routes, sites)),
    )
    return replace(after, finished=is_finished(after))


def source_states(job: EpochJob, offers: Sequence[Offer], routes: Sequence[RouteReport]) -> tuple[SourceState, ...]:
    """Return the state of the sources after the epoch. Needs only the reports of the splits."""
    return tuple(_source_state(job, index, offer, routes) for index, offer in enumerate(offers))


def _source_state(job: EpochJob, index: int, offer: Offer, routes: Sequence[RouteReport]) -> SourceState:
    mine, known = [r for r in routes if r.input == index], job.sources[index]
    seen = [r.seen for r in mine if r.seen is not None]
    marks = advance(job.program.inputs[index].progress, known.marks, seen, known.finished)
    floor = stream_mark(marks, False, known.floor)
    return SourceState(offer.progress, marks, offer.ended, floor, known.rows + sum(r.numbered for r in mine))


def _subquery_state(job: EpochJob, number: int, reports: Sequence[SiteReport]) -> SubqueryState:
    states = {r.site: r.state for r in reports if r.subquery == number}
    return SubqueryState(job.directories[number], tuple(states[site] for site in range(job.directories[number].sites)))


def epoch_totals(routes: Sequence[RouteReport], sites: Sequence[SiteReport]) -> Totals:
    """Return the row counts of one epoch."""
    return Totals(
        rows_in=sum(r.rows_read for r in routes),
        rows_out=sum(r.rows_out for r in routes) + sum(r.rows_out for r in sites),
        late_rows=sum(r.rows_late for r in routes),
        bad_rows=sum(r.rows_bad for r in routes),
    )


def source_marks(sources: Sequence[SourceState]) -> list[Mark]:
    """Return the mark of each source."""
    return [stream_mark(source.marks, source.ended, source.floor) for source in sources]


def is_finished(manifest: Manifest) -> bool:
    """Return whether all input has ended and no work is left."""
    sites = [site for sub in manifest.subqueries for site in sub.sites]
    done = [mark for site in sites for part in site.marks for mark in part.marks]
    left = any(site.pending or site.parked for site in sites)
    return low_water_mark([*source_marks(manifest.sources), *done]).ended and not left


def has_pending(manifest: Manifest, program: Program) -> bool:
    """Return whether a site is behind the punctuation it has been given: an epoch without input would still do work.
    What is parked does not count."""
    for subquery, state in zip(program.subqueries, manifest.subqueries, strict=True):
        upto = marks_into(manifest, program, subquery)
        if any(_has_pending(site, subquery, upto) for site in state.sites):
            return True
    return False


def _has_pending(site: SiteState, subquery: Subquery, upto: Marks) -> bool:
    free = remaining([EVERYTHING], site.parked_ranges())
    works_on_parked = isinstance(subquery.operator, Generational)
    pending = bool(site.pending) if works_on_parked or not site.parked else any(restrict(site.pending, free))
    return pending or any(behind(part.marks, upto) for part in restricted(site.marks, free))


def marks_into(manifest: Manifest, program: Program, subquery: Subquery) -> Marks:
    """Return the marks that the producers of a subquery have reached, by track."""
    return subquery.track_marks(
        (feed.branch, feed.branch.followed(marks))
        for feed in program.feeds(subquery.number)
        for marks in _marks_of(manifest, program, feed)
    )


def _marks_of(manifest: Manifest, program: Program, feed: Feed) -> list[Marks]:
    """Return the marks of a producer: of an input, or of each site of a subquery."""
    if feed.is_input:
        source = manifest.sources[feed.producer]
        return [(source_marks(manifest.sources)[feed.producer], END if source.ended else at(source.rows))]
    operator = program.subqueries[feed.producer].operator
    sites = manifest.subqueries[feed.producer].sites
    return [operator.output_marks(least(site.marks, operator.tracks)) for site in sites]


def nothing_yet(directory: Directory, tracks: int) -> SubqueryState:
    """Return the state of a subquery before its first epoch."""
    homes = [directory.ranges_of(site) for site in range(directory.sites)]
    return SubqueryState(directory, tuple(SiteState((), starting_marks(home, tracks)) for home in homes))


def epoch_committed(
    before: Manifest, after: Manifest, waiting: int, seconds: float, pending: bool, reports: Reports, disk_bytes: int
) -> EpochCommitted:
    """Return the event for an epoch that has been committed. `waiting` is how many rows sources are known to have for
    later epochs, `disk_bytes` what the checkpoint takes."""
    mark = low_water_mark(source_marks(after.sources))
    return EpochCommitted(
        epoch=after.epoch,
        rows_in=after.totals.rows_in - before.totals.rows_in,
        rows_out=after.totals.rows_out - before.totals.rows_out,
        late_rows=after.totals.late_rows - before.totals.late_rows,
        bad_rows=after.totals.bad_rows - before.totals.bad_rows,
        seconds=seconds,
        waiting=waiting,
        low_water_mark=None if mark.ended else mark.at,
        pending=pending,
        backlog=whole_backlog(reports),
        sites=max((len(state.sites) for state in after.subqueries), default=0),
        disk_bytes=disk_bytes,
        parked_bytes=sum(map(parked_bytes, after.subqueries)),
    )


def parked_bytes(state: SubqueryState) -> int:
    """Return about how many bytes of a subquery's state are parked."""
    return sum(about_bytes(site.parked_slices(), len(state.sites)) for site in state.sites)
