"""Executors run the tasks of an epoch: the one here in this process, those of `spark` on Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from penstock.engine.task.level import partition_of, run_level, run_route
from penstock.engine.wire.blob import Blob
from penstock.engine.wire.job import EpochJob, Following, Message, Report, RouteTask, nothing_follows
from penstock.errors import PenstockError


class Executor(Protocol):
    """Runs the tasks of an epoch."""

    def run(self, job: EpochJob, routes: Sequence[RouteTask], following: Following = nothing_follows) -> list[Report]:
        """Run all tasks and return their reports. `following` returns the splits of the next epoch, given the reports
        of this epoch's splits; an executor may start to read them early."""
        ...

    def cancel(self) -> None:
        """Make a running `run` fail soon."""
        ...

    def close(self) -> None: ...


class InlineExecutor:
    """Runs the tasks of an epoch one after another in this process, for tests, small data and the simulator."""

    _cancelled = False

    def run(self, job: EpochJob, routes: Sequence[RouteTask], following: Following = nothing_follows) -> list[Report]:
        routed = [m for task in routes for m in self._unless_cancelled(job, run_route(job, task))]
        return through_levels(job, routed, self._unless_cancelled)

    def _unless_cancelled(self, job: EpochJob, messages: Iterable[Message]) -> Iterator[Message]:
        """Yield the messages; raise an error when the epoch is cancelled."""
        for message in messages:
            if self._cancelled:
                raise PenstockError(f"epoch {job.epoch} was cancelled")
            yield message

    def cancel(self) -> None:
        """Cancel the epoch between two of its messages."""
        self._cancelled = True

    def close(self) -> None:
        """Do nothing: no resources are held."""


def _all_of(job: EpochJob, messages: Iterable[Message]) -> Iterable[Message]:
    """Return all messages."""
    return messages


def through_levels(
    job: EpochJob,
    messages: Sequence[Message],
    watched: Callable[[EpochJob, Iterable[Message]], Iterable[Message]] = _all_of,
) -> list[Report]:
    """Run all sites, level by level, on the messages of all splits and return the reports of all tasks. `watched` gets
    the messages of each level, and may raise."""
    for level in range(len(job.program.subqueries)):
        messages = list(watched(job, _one_level(job, level, messages)))
    return [m.content for m in messages if not isinstance(m.content, Blob)]


def _one_level(job: EpochJob, level: int, messages: Iterable[Message]) -> Iterator[Message]:
    """Run the sites of one level, and yield their messages and those that they forward."""
    partitions: list[list[Message]] = [[] for _ in range(job.width)]
    for message in messages:
        partitions[partition_of(message.site, job.width)].append(message)
    for partition, inbox in enumerate(partitions):
        yield from run_level(job, level, partition, inbox)
