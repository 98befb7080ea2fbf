"""Whether the tasks of an epoch agree: every consumer must have read the same, reported attempt of every producer.

After a lost shuffle file, a retry or speculation, Spark can hand two consumers different attempts of one producer, and
attempts differ in what a deadline left pending. An epoch in which that happened is dropped and run again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.engine.wire.job import (
    EpochJob,
    Report,
    RouteReport,
    SiteReport,
    TaskFailure,
    branch_name,
    producers_of,
    route_producer,
    site_producer,
)


def successes(reports: Sequence[Report]) -> list[RouteReport | SiteReport]:
    """The reports of tasks that did their work; raises the error of one that could not."""
    for report in reports:
        if isinstance(report, TaskFailure):
            raise report.error
    return [r for r in reports if not isinstance(r, TaskFailure)]


def disagreement(job: EpochJob, reports: Sequence[RouteReport | SiteReport]) -> str | None:
    """Why the epoch must not be committed; None where all is well."""
    return next(_disagreements(job, reports), None)


def _disagreements(job: EpochJob, reports: Sequence[RouteReport | SiteReport]) -> Iterator[str]:
    attempts: dict[str, str] = {}
    for report in reports:
        if report.producer in attempts:
            yield f"{report.producer} reported twice"
        attempts[report.producer] = report.attempt
    for producer in _expected(job):
        if producer not in attempts:
            yield f"{producer} did not report"
    for report in reports:
        if isinstance(report, SiteReport):
            yield from _misread(job, report, attempts)


def _expected(job: EpochJob) -> Iterator[str]:
    yield from (route_producer(ordinal) for ordinal in range(len(job.route_inputs)))
    for number, directory in enumerate(job.directories):
        yield from (site_producer(number, site) for site in range(directory.sites))


def _misread(job: EpochJob, report: SiteReport, attempts: dict[str, str]) -> Iterator[str]:
    for producer, branch in _feeding(job, report.subquery):
        read = report.read.get(branch_name(producer, branch))
        if read is None:
            yield f"{report.producer} got nothing from {producer}"
        elif read != attempts.get(producer):
            yield f"{report.producer} read an attempt of {producer} other than the one that reported"


def _feeding(job: EpochJob, subquery: int) -> Iterator[tuple[str, int]]:
    """The producers that feed a subquery, each with the branch by which it does."""
    for feed in job.program.feeds(subquery):
        yield from ((producer, feed.branch_number) for producer in producers_of(job, feed))
