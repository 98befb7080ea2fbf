"""Every fact worth telling about a run, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EpochCommitted:
    """An epoch became true. `low_water_mark` is in the unit of the time column, None at the end of the stream;
    `pending` says that work was left for a later epoch."""

    epoch: int
    rows_in: int
    rows_out: int
    late_rows: int
    bad_rows: int
    seconds: float
    waiting: int
    low_water_mark: int | None
    pending: bool


@dataclass(frozen=True)
class TaskTimed:
    """A task of an epoch: "route" or "site", on which worker, begun so many seconds into the epoch, by the clocks of
    driver and worker. The `steps` add up to no more than `seconds`."""

    name: str
    kind: str
    worker: str
    started: float
    seconds: float
    steps: dict[str, float]


@dataclass(frozen=True)
class EpochTimed:
    """Where the time of an epoch went: at the driver, whose step "run" is the wait for all tasks, and in each task."""

    epoch: int
    seconds: float
    driver: dict[str, float]
    tasks: tuple[TaskTimed, ...]


@dataclass(frozen=True)
class EpochDropped:
    """An epoch was run and thrown away, and will be run again."""

    epoch: int
    reason: str


@dataclass(frozen=True)
class RunRecovered:
    """A run continues from a checkpoint."""

    epoch: int
    directory_changed: bool


@dataclass(frozen=True)
class RunFinished:
    """All input is read and every result is published."""

    epoch: int


Event = EpochCommitted | EpochTimed | EpochDropped | RunRecovered | RunFinished
