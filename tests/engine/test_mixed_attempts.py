"""An epoch whose tasks did not all read one and the same attempt of every producer is dropped and run again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest

from penstock.engine.driver.executor import InlineExecutor, _one_level
from penstock.engine.task.level import run_route
from penstock.engine.wire.blob import Blob
from penstock.engine.wire.job import (
    EpochJob,
    LookAhead,
    Message,
    Report,
    RouteTask,
    SiteReport,
    nothing_follows,
    route_producer,
    site_producer,
)
from penstock.errors import PenstockError
from penstock.events import EpochDropped
from penstock.testing.ways import Way
from tests.support.crashes import (
    Place,
    assert_exact,
    finish,
    newest_manifest,
    random_scenario,
)
from tests.support.looping import step_to_end
from tests.support.mixing import MixingExecutor

Messages = list[Message]
Spoil = Callable[[Messages, Callable[[], Messages]], Messages]


def _is_blob(message: Message) -> bool:
    return isinstance(message.content, Blob)


def _some_blobs_of_another_attempt(first: Messages, again: Callable[[], Messages]) -> Messages:
    second = again()
    return [b if _is_blob(a) and a.to.site == 1 else a for a, b in zip(first, second, strict=True)]


def _the_reports_of_another_attempt(first: Messages, again: Callable[[], Messages]) -> Messages:
    return [m for m in first if _is_blob(m)] + [m for m in again() if not _is_blob(m)]


def _blobs_of_both_attempts(first: Messages, again: Callable[[], Messages]) -> Messages:
    return first + [m for m in again() if _is_blob(m) and m.to.site == 0]


def _one_blob_twice(first: Messages, again: Callable[[], Messages]) -> Messages:
    return [*first, next(filter(_is_blob, first))]


def _one_blob_lost(first: Messages, again: Callable[[], Messages]) -> Messages:
    lost = next(filter(_is_blob, first))
    return [m for m in first if m is not lost]


def _one_report_twice(first: Messages, again: Callable[[], Messages]) -> Messages:
    return [*first, next(m for m in first if not _is_blob(m))]


SPOILS = [
    _some_blobs_of_another_attempt,
    _the_reports_of_another_attempt,
    _blobs_of_both_attempts,
    _one_blob_twice,
    _one_blob_lost,
    _one_report_twice,
]


class _Spoiling(InlineExecutor):
    """Spoils what a level of the job sends, the first `times` times that it has sent something."""

    def __init__(self, spoil: Spoil, level: int, times: int) -> None:
        super().__init__()
        self._spoil, self._level, self._left = spoil, level, times

    def run(self, job: EpochJob, routes: Sequence[RouteTask], following: LookAhead = nothing_follows) -> list[Report]:
        messages = self._sent(0, lambda: [m for task in routes for m in run_route(job, task, self._clock)])
        for level in range(len(job.program.subqueries)):
            inbox = messages
            messages = self._sent(
                level + 1, lambda level=level, inbox=inbox: list(_one_level(job, level, inbox, self._clock))
            )
        return [m.content for m in messages if not isinstance(m.content, Blob)]

    def _sent(self, level: int, send: Callable[[], Messages]) -> Messages:
        sent = send()
        if level != self._level or self._left == 0 or not any(map(_is_blob, sent)):
            return sent
        self._left -= 1
        return self._spoil(sent, send)


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("spoil", SPOILS)
def test_what_is_not_of_one_attempt_is_dropped_and_run_again(
    spoil: Spoil, level: int, random: Random, place: Place
) -> None:
    scenario = random_scenario(random, levels=2)
    told = step_to_end(scenario, place, Way(sites=random.choice([2, 3])), _Spoiling(spoil, level, 3))
    assert len([event for event in told if isinstance(event, EpochDropped)]) == 3
    assert_exact(scenario, place)


@pytest.mark.parametrize("producer", [route_producer(0), site_producer(0, 0), site_producer(0, 1)])
def test_reports_of_two_runs_of_an_epoch(producer: str, random: Random, place: Place) -> None:
    scenario = random_scenario(random, levels=2)
    executor = MixingExecutor(InlineExecutor(), 2, lambda report: report.producer == producer)
    told = step_to_end(scenario, place, Way(), executor)
    assert len([event for event in told if isinstance(event, EpochDropped)]) == 2
    assert_exact(scenario, place)


def test_the_last_subquery_may_be_of_any_attempt_since_nobody_reads_it(random: Random, place: Place) -> None:
    """Its report names its files and its state, so that a site is of one attempt even where two sites are of two."""
    scenario = random_scenario(random, levels=2)

    class OneSiteAgain(InlineExecutor):
        def run(
            self, job: EpochJob, routes: Sequence[RouteTask], following: LookAhead = nothing_follows
        ) -> list[Report]:
            messages = [m for task in routes for m in run_route(job, task, self._clock)]
            inbox = list(_one_level(job, 0, messages, self._clock))
            first, second = (list(_one_level(job, 1, inbox, self._clock)) for _ in range(2))
            last = [m.content for m in second if isinstance(m.content, SiteReport) and m.content.subquery == 1]
            again = {report.producer: report for report in last if report.site == 1}
            contents = [m.content for m in first if not isinstance(m.content, Blob)]
            return [again.get(content.producer, content) for content in contents]

    told = step_to_end(scenario, place, Way(), OneSiteAgain())
    assert not [event for event in told if isinstance(event, EpochDropped)]
    assert_exact(scenario, place)


def test_an_epoch_that_never_agrees_ends_the_run_and_commits_nothing(random: Random, place: Place) -> None:
    scenario = random_scenario(random, levels=1)
    with pytest.raises(PenstockError, match="epoch 1 could not be run consistently"):
        step_to_end(scenario, place, Way(), _Spoiling(_some_blobs_of_another_attempt, 0, 10**6))
    assert newest_manifest(place.checkpoint).epoch == 0
    finish(scenario, place, Way())
    assert_exact(scenario, place)
