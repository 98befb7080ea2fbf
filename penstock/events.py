"""The events of a run, as immutable values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EpochCommitted:
    """An epoch was committed. `low_water_mark` is in the unit of the time column, None at the end of the stream.
    `pending` says that work was left for a later epoch, apart from closings that were put off on purpose; `backlog` is
    the number of rows that wait at all sites. `waiting` is the number of rows that the sources still have. `sites` is
    the number of sites of the subquery that has most. The checkpoint takes `disk_bytes`, without published rows.
    About `parked_bytes` of state are parked: they still owe results."""

    epoch: int
    rows_in: int
    rows_out: int
    late_rows: int
    bad_rows: int
    seconds: float
    waiting: int
    low_water_mark: int | None
    pending: bool
    backlog: int = 0
    sites: int = 0
    disk_bytes: int = 0
    parked_bytes: int = 0


@dataclass(frozen=True)
class TaskTimed:
    """The timing of one task of an epoch. `kind` is "route" or "site", `started` the seconds from the start of the
    epoch, by the clocks of driver and worker. The `steps` add up to at most `seconds`. `fetched` is the bytes of state
    that the host fetched for a site since its last epoch."""

    name: str
    kind: str
    worker: str
    started: float
    seconds: float
    steps: dict[str, float]
    fetched: int = 0


@dataclass(frozen=True)
class EpochTimed:
    """The timing of an epoch: the steps of the driver, where "run" is the wait for all tasks, and each task."""

    epoch: int
    seconds: float
    driver: dict[str, float]
    tasks: tuple[TaskTimed, ...]


@dataclass(frozen=True)
class DirectoryChanged:
    """A change of a subquery's directory was decided after an epoch: what and why. `gain` is the fraction by which the
    work of the slowest site is to shrink, `cost` about how many bytes of state move to another site."""

    epoch: int
    subquery: int
    what: str
    why: str
    gain: float
    cost: int


@dataclass(frozen=True)
class ChangeRefused:
    """A policy or a user asked for a change that would have broken a rule."""

    epoch: int
    subquery: int
    what: str
    why: str
    rule: str


@dataclass(frozen=True)
class ChangeMeasured:
    """The gain predicted for the changes of the round before, and the gain measured."""

    epoch: int
    subquery: int
    predicted: float
    measured: float


@dataclass(frozen=True)
class Rebalanced:
    """The sites of a subquery were levelled on request. `changes` were made and `refused` were not; `apart` is the
    difference between the sites before, as a fraction of the busiest one's time."""

    epoch: int
    subquery: int
    changes: int
    refused: int
    apart: float


@dataclass(frozen=True)
class EpochDropped:
    """An attempt to run an epoch failed or was discarded: a worker was lost, tasks disagreed, or its files would take
    more than the setting `disk` allows. The epoch runs again, in the last case with fewer rows, unless this was the
    last attempt that the setting `attempts_per_epoch` allows, or the run is being stopped: then `again` is False.
    Attempts count from 1."""

    epoch: int
    reason: str
    attempt: int = 1
    again: bool = True


@dataclass(frozen=True)
class WorkerDied:
    """A worker died or failed while it ran an attempt of an epoch. `worker` is its number in the worker pool, None for
    a worker of a Spark job. The attempt is dropped, and other workers are started for the next one."""

    epoch: int
    worker: int | None
    reason: str
    attempt: int = 1


@dataclass(frozen=True)
class SparkStarting:
    """A run is about to start Spark, or to connect to it, which takes seconds."""

    master: str


@dataclass(frozen=True)
class DiskFull:
    """A disk is full, and the run waits for room. Repeated at every check that finds none; `attempt` counts them."""

    epoch: int
    what: str
    detail: str
    attempt: int = 1

    def __str__(self) -> str:
        return f"warning: {self.what} ({self.detail}); epoch {self.epoch} waits until there is"


@dataclass(frozen=True)
class DiskPressure:
    """Back-pressure by disk space has begun, or ended if `begins` is False: epochs take in fewer rows the less space is
    left. The checkpoint takes `used` bytes of `limit` (0: no limit), and its file system has `free` bytes left."""

    epoch: int
    begins: bool
    used: int
    limit: int
    free: int


@dataclass(frozen=True)
class JoinExplodes:
    """A key of a join has many rows in every input (`rows`, one count per input), so that about `combinations` results
    are to be made from the next epoch on. Reported once per key; no result is left out."""

    epoch: int
    subquery: int
    key: str
    rows: tuple[int, ...]
    combinations: int

    def __str__(self) -> str:
        rows = " x ".join(f"{count:,}" for count in self.rows)
        return (
            f"warning: the join of subquery {self.subquery} makes about {self.combinations:,} rows of key {self.key} "
            f"({rows} rows): narrow its band of time, or add a condition"
        )


@dataclass(frozen=True)
class RunRecovered:
    """A run continues from a checkpoint."""

    epoch: int
    directory_changed: bool


@dataclass(frozen=True)
class RunFinished:
    """All input is read and every result is published."""

    epoch: int


Event = (
    EpochCommitted
    | EpochTimed
    | DirectoryChanged
    | ChangeRefused
    | ChangeMeasured
    | Rebalanced
    | EpochDropped
    | WorkerDied
    | DiskFull
    | DiskPressure
    | SparkStarting
    | JoinExplodes
    | RunRecovered
    | RunFinished
)
