"""Where the time of a run goes: what the engine tells of its epochs, turned into shares that add up.

At every moment every core does one thing: a step of a task; or it has no task, and then it waits for what the driver
does at that moment; or, while the driver itself waits for the job, for Spark or for a task on another core. Added up
and divided by the cores this is the time that passed: the parts of an epoch are its seconds, no more and no less, and a
part is what could be won if that step cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal, NamedTuple

from penstock.errors import ConfigError, PenstockError

Kind = Literal["route", "site"]
Place = Literal["driver", "route", "site", "spark"]

RUN = "run"  # the step of the driver in which it waits for the job
_CLOCK_ERROR = 0.002  # seconds by which a sum of measured times may exceed the whole


class Step(NamedTuple):
    """One kind of work or of waiting, and where it happens."""

    place: Place
    name: str

    def __str__(self) -> str:
        return f"{self.place}: {self.name}"


STARTING = Step("spark", "start")  # the job is submitted, and no task of the epoch runs yet
EXCHANGING = Step("spark", "exchange")  # no task runs, between the first and the last of the epoch
ENDING = Step("spark", "end")  # all tasks have ended, and the driver does not know it yet
WAITING = Step("spark", "waiting")  # this core has no task while another has
REST = "rest"  # of a task or of the driver: what its steps do not name


@dataclass(frozen=True)
class TaskProfile:
    """A task of an epoch. `started` counts from the beginning of the epoch, and is negative where the task ran ahead of
    it, by one epoch at most. Invariant: `steps` follow each other in this order, and take no longer than the task."""

    name: str
    kind: Kind
    worker: str
    started: float
    seconds: float
    steps: dict[str, float]

    def __post_init__(self) -> None:
        _check_sum(f"task {self.name}", self.seconds, self.steps)


@dataclass(frozen=True)
class EpochProfile:
    """An epoch as it was measured. Invariant: `driver` holds the steps of the driver in their order, `run` being that
    of the job, and they take no longer than the epoch."""

    epoch: int
    seconds: float
    driver: dict[str, float]
    tasks: tuple[TaskProfile, ...]

    def __post_init__(self) -> None:
        _check_sum(f"the driver in epoch {self.epoch}", self.seconds, self.driver)


def _check_sum(whose: str, seconds: float, steps: Mapping[str, float]) -> None:
    total = sum(steps.values())
    if total > seconds + _CLOCK_ERROR or min(steps.values(), default=0.0) < 0:
        told = ", ".join(f"{name} {value:.4f}" for name, value in steps.items())
        raise PenstockError(
            f"the steps of {whose} do not fit into its time",
            detail=f"{total:.4f} s of steps in {seconds:.4f} s: {told}",
            hint="a step that contains another must be told without it",
        )


class Span(NamedTuple):
    """A step of a lane, from `start` to `end` in seconds since the epoch began. A lane is the driver or a worker."""

    lane: str
    start: float
    end: float
    step: Step
    task: str


class Part(NamedTuple):
    """A step with the seconds of wall time that it accounts for, and their share of the whole."""

    step: Step
    seconds: float
    share: float


@dataclass(frozen=True)
class Profile:
    """A run on `cores`, epoch by epoch. Invariant: `parts[i]` adds up to the seconds of `epochs[i]`."""

    cores: int
    epochs: tuple[EpochProfile, ...]
    parts: tuple[dict[Step, float], ...]

    @property
    def seconds(self) -> float:
        return sum(epoch.seconds for epoch in self.epochs)

    @cached_property
    def total(self) -> tuple[Part, ...]:
        """Every step over all epochs, the dearest first."""
        sums: dict[Step, float] = {}
        for parts in self.parts:
            for step, seconds in parts.items():
                sums[step] = sums.get(step, 0.0) + seconds
        ordered = sorted(sums, key=lambda step: -sums[step])
        return tuple(Part(step, sums[step], sums[step] / self.seconds if self.seconds else 0.0) for step in ordered)


def profile_of(epochs: Sequence[EpochProfile], cores: int) -> Profile:
    """The profile of a run whose tasks had that many cores."""
    if cores < 1:
        raise ConfigError("a profile needs at least one core", detail=f"{cores} given")
    parts = tuple(_parts(epochs, number, cores) for number in range(len(epochs)))
    return Profile(cores, tuple(epochs), parts)


def driver_spans(epoch: EpochProfile) -> list[Span]:
    """What the driver does from the beginning to the end of an epoch, without gaps."""
    spans = list(_in_sequence("driver", "driver", epoch.driver, 0.0, epoch.seconds, "driver"))
    return [span for span in spans if span.end > span.start]


def task_spans(epochs: Sequence[EpochProfile], number: int) -> list[Span]:
    """What the workers do during an epoch: its own tasks, and those of the next that ran ahead."""
    here = epochs[number]
    ahead = [(task, here.seconds + task.started) for after in epochs[number + 1 : number + 2] for task in after.tasks]
    placed = [(task, task.started) for task in here.tasks] + [(task, start) for task, start in ahead]
    spans = [
        span
        for task, start in placed
        for span in _in_sequence(task.worker, task.kind, task.steps, start, start + task.seconds, task.name)
    ]
    clipped = [span._replace(start=max(span.start, 0.0), end=min(span.end, here.seconds)) for span in spans]
    return [span for span in clipped if span.end > span.start]


def _in_sequence(
    lane: str, place: Place, steps: Mapping[str, float], start: float, end: float, task: str
) -> Iterator[Span]:
    """The steps one after the other, cut at `end`; what they leave of the time is the rest."""
    for name, seconds in steps.items():
        until = min(start + seconds, end)
        yield Span(lane, start, until, Step(place, name), task)
        start = until
    yield Span(lane, start, end, Step(place, REST), task)


def _parts(epochs: Sequence[EpochProfile], number: int, cores: int) -> dict[Step, float]:
    epoch, tasks = epochs[number], task_spans(epochs, number)
    parts: dict[Step, float] = {}
    for start, end, busy, idle in _moments(epoch, tasks):
        each = (end - start) / max(cores, len(busy))  # more tasks than cores share the cores
        for step in busy:
            parts[step] = parts.get(step, 0.0) + each
        if len(busy) < cores:
            parts[idle] = parts.get(idle, 0.0) + (cores - len(busy)) * each
    return parts


def _moments(epoch: EpochProfile, tasks: Sequence[Span]) -> Iterator[tuple[float, float, list[Step], Step]]:
    """The epoch cut wherever something changes: from, to, the steps that run, what a core without a task waits for."""
    driver = driver_spans(epoch)
    own = [task.started for task in epoch.tasks], [task.started + task.seconds for task in epoch.tasks]
    cuts = sorted({0.0, epoch.seconds, *(edge for span in (*driver, *tasks) for edge in (span.start, span.end))})
    for start, end in pairwise(cuts):
        busy = [span.step for span in tasks if span.start <= start < span.end]
        doing = next(span.step for span in driver if span.start <= start < span.end)
        yield start, end, busy, _waits_for(doing, bool(busy), start, *own)


def _waits_for(doing: Step, others_busy: bool, now: float, starts: Sequence[float], ends: Sequence[float]) -> Step:
    if doing.name != RUN:
        return doing
    if others_busy:
        return WAITING
    if now < min(starts, default=0.0):
        return STARTING
    return ENDING if now >= max(ends, default=0.0) else EXCHANGING
