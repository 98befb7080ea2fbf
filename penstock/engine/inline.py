"""The in-process executor: the tasks of an epoch one after another, for tests, small data and the simulator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from penstock.engine.blob import Blob
from penstock.engine.job import EpochJob, Following, Message, Report, RouteTask, nothing_follows
from penstock.engine.level import partition_of, run_level, run_route


class InlineExecutor:
    def run(self, job: EpochJob, routes: Sequence[RouteTask], following: Following = nothing_follows) -> list[Report]:
        return through_levels(job, [m for task in routes for m in run_route(job, task)])

    def cancel(self) -> None:
        """Nothing: an epoch in this process is short, and ends by itself."""

    def close(self) -> None:
        """Nothing is held."""


def through_levels(job: EpochJob, messages: Sequence[Message]) -> list[Report]:
    """What comes of the messages of all splits."""
    for level in range(len(job.program.subqueries)):
        messages = list(_one_level(job, level, messages))
    return [m.content for m in messages if not isinstance(m.content, Blob)]


def _one_level(job: EpochJob, level: int, messages: Iterable[Message]) -> Iterator[Message]:
    partitions: list[list[Message]] = [[] for _ in range(job.width)]
    for message in messages:
        partitions[partition_of(message.site, job.width)].append(message)
    for partition, inbox in enumerate(partitions):
        yield from run_level(job, level, partition, inbox)
