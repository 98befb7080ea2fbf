"""From the reports of an epoch to the manifest that makes it true. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.checkpoint.manifest import Manifest, SourceState, SubqueryState, Totals
from penstock.engine.job import EpochJob, RouteReport, SiteReport
from penstock.engine.marks import least
from penstock.plan.subqueries import Program
from penstock.progress.mark import Mark
from penstock.progress.rules import advance, low_water_mark, stream_mark
from penstock.sources.base import Offer


def next_manifest(
    before: Manifest, job: EpochJob, offers: Sequence[Offer], reports: Sequence[RouteReport | SiteReport]
) -> Manifest:
    routes = [r for r in reports if isinstance(r, RouteReport)]
    sites = [r for r in reports if isinstance(r, SiteReport)]
    after = before.next(
        sources=tuple(_source_state(before, job, index, offer, routes) for index, offer in enumerate(offers)),
        subqueries=tuple(_subquery_state(job, number, sites) for number in range(len(job.directories))),
        staged=tuple(file for report in reports for file in report.staged),
        totals=before.totals.plus(epoch_totals(routes, job, sites)),
    )
    return replace(after, finished=is_finished(after))


def _source_state(
    before: Manifest, job: EpochJob, index: int, offer: Offer, routes: Sequence[RouteReport]
) -> SourceState:
    seen = [r.seen for r in routes if r.input == index and r.seen is not None]
    marks = advance(job.program.inputs[index].progress, before.sources[index].marks, seen)
    return SourceState(offer.progress, marks, offer.ended)


def _subquery_state(job: EpochJob, number: int, reports: Sequence[SiteReport]) -> SubqueryState:
    states = {r.site: r.state for r in reports if r.subquery == number}
    return SubqueryState(job.directories[number], tuple(states[site] for site in range(job.directories[number].sites)))


def epoch_totals(routes: Sequence[RouteReport], job: EpochJob, sites: Sequence[SiteReport]) -> Totals:
    last = len(job.program.subqueries) - 1
    return Totals(
        rows_in=sum(r.rows_read for r in routes),
        rows_out=sum(r.rows_out for r in routes) + sum(r.rows_out for r in sites if r.subquery == last),
        late_rows=sum(r.rows_late for r in routes),
        bad_rows=sum(r.rows_bad for r in routes),
    )


def busy_seconds(reports: Sequence[RouteReport | SiteReport]) -> float:
    """About how long an epoch was held by the work of its tasks: splits are shared out among as many tasks as there
    are sites, and each level is as long as its slowest site."""
    routes = [r.seconds for r in reports if isinstance(r, RouteReport)]
    levels: dict[int, list[float]] = {}
    for report in reports:
        if isinstance(report, SiteReport):
            levels.setdefault(report.subquery, []).append(report.seconds)
    widest = max((len(sites) for sites in levels.values()), default=1)
    return sum(routes) / max(1, min(len(routes), widest)) + sum(max(sites) for sites in levels.values())


def source_marks(manifest: Manifest) -> list[Mark]:
    return [stream_mark(source.marks, source.ended) for source in manifest.sources]


def is_finished(manifest: Manifest) -> bool:
    """Whether nothing can come any more and nothing is left to do."""
    done = [least(site.marks) for sub in manifest.subqueries for site in sub.sites]
    return low_water_mark([*source_marks(manifest), *done]).ended


def has_pending(manifest: Manifest, program: Program) -> bool:
    """Whether a site is behind the punctuation it has been given: an epoch without input would still do something."""
    for number, state in enumerate(manifest.subqueries):
        upto = low_water_mark([*_marks_into(manifest, program, number)])
        if any(least(site.marks) < upto for site in state.sites):
            return True
    return False


def _marks_into(manifest: Manifest, program: Program, number: int) -> list[Mark]:
    sources = source_marks(manifest)
    marks = [sources[index] for index in program.inputs_of(number)]
    for feeder in program.feeders_of(number):
        operator = program.subqueries[feeder].operator
        marks += [operator.output_mark(least(site.marks)) for site in manifest.subqueries[feeder].sites]
    return marks
