"""Every fact worth telling about a run, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EpochCommitted:
    """An epoch became true. `low_water_mark` is in the unit of the time column, None at the end of the stream;
    `pending` says that work was left for a later epoch, besides closings that were put off on purpose, and `backlog`
    how many rows wait for it at all sites. `sites` is how many the subquery with most of them has."""

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


@dataclass(frozen=True)
class TaskTimed:
    """A task of an epoch: "route" or "site", on which worker, begun so many seconds into the epoch, by the clocks of
    driver and worker. The `steps` add up to no more than `seconds`. `fetched` are the bytes of state that the host of a
    site has fetched for it since its last epoch."""

    name: str
    kind: str
    worker: str
    started: float
    seconds: float
    steps: dict[str, float]
    fetched: int = 0


@dataclass(frozen=True)
class EpochTimed:
    """Where the time of an epoch went: at the driver, whose step "run" is the wait for all tasks, and in each task."""

    epoch: int
    seconds: float
    driver: dict[str, float]
    tasks: tuple[TaskTimed, ...]


@dataclass(frozen=True)
class DirectoryChanged:
    """After an epoch it was decided to change the directory of a subquery: what, why, by which part the work of its
    slowest site is to get less, and about how many bytes of state get another home."""

    epoch: int
    subquery: int
    what: str
    why: str
    gain: float
    cost: int


@dataclass(frozen=True)
class ChangeRefused:
    """A policy, or somebody by hand, wanted a change that would have broken a rule."""

    epoch: int
    subquery: int
    what: str
    why: str
    rule: str


@dataclass(frozen=True)
class ChangeMeasured:
    """What the changes of the round before were to gain, and what they did."""

    epoch: int
    subquery: int
    predicted: float
    measured: float


@dataclass(frozen=True)
class Rebalanced:
    """Somebody asked for the sites of a subquery to be evened out: how many changes were made, how many refused, and by
    which part of the busiest one's time the sites were apart before."""

    epoch: int
    subquery: int
    changes: int
    refused: int
    apart: float


@dataclass(frozen=True)
class EpochDropped:
    """An epoch was run and thrown away, and will be run again."""

    epoch: int
    reason: str


@dataclass(frozen=True)
class SparkStarting:
    """A run is about to start Spark, or to connect to it, which takes seconds."""

    master: str


@dataclass(frozen=True)
class DiskFull:
    """A disk has no room left, and the run waits for it. It is told at every look that finds none."""

    epoch: int
    what: str
    detail: str

    def __str__(self) -> str:
        return f"warning: {self.what} ({self.detail}); epoch {self.epoch} waits until there is"


@dataclass(frozen=True)
class JoinExplodes:
    """A key of a join has so many rows of each input that about so many combinations of them are to be made, from the
    next epoch on. It is told once for a key; nothing is left out."""

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
    | DiskFull
    | SparkStarting
    | JoinExplodes
    | RunRecovered
    | RunFinished
)
