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


Event = EpochCommitted | EpochDropped | RunRecovered | RunFinished
