"""The profile of a run from its events."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.events import EpochTimed, Event, TaskTimed
from penstock_bench.profile.shares import EpochProfile, Kind, Profile, TaskProfile, profile_of


def profile_of_events(events: Iterable[Event], cores: int) -> Profile:
    """What the timed epochs among the events say; all other events are passed over."""
    return profile_of(epoch_profiles(events), cores)


def epoch_profiles(events: Iterable[Event]) -> list[EpochProfile]:
    """The timed epochs, in the order told. Workers become numbers, for their names tell hosts and processes."""
    timed = [event for event in events if isinstance(event, EpochTimed)]
    names = dict.fromkeys(task.worker for event in timed for task in sorted(event.tasks, key=lambda task: task.started))
    numbers = {name: str(number) for number, name in enumerate(names, 1)}
    return [_epoch(event, numbers) for event in timed]


def _epoch(event: EpochTimed, numbers: dict[str, str]) -> EpochProfile:
    tasks = tuple(_task(task, numbers[task.worker]) for task in event.tasks)
    return EpochProfile(event.epoch, event.seconds, dict(event.driver), tasks)


def _task(task: TaskTimed, worker: str) -> TaskProfile:
    kind: Kind = "route" if task.kind == "route" else "site"
    return TaskProfile(task.name, kind, worker, task.started, task.seconds, dict(task.steps))
