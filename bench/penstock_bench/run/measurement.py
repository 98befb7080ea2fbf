"""What a benchmark found out: checked runs of one system on one workload, or why there are none."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from penstock_bench.profile.shares import EpochProfile, Profile, profile_of
from penstock_bench.system import Limits


@dataclass(frozen=True)
class Trial:
    """One checked run. `detail` says how many rows were right and wrong."""

    seconds: float
    rows_in: int
    peak_memory_bytes: int
    equal: bool
    detail: str
    rows_out: int = 0
    epochs: int = 0
    profiles: tuple[EpochProfile, ...] = ()


@dataclass(frozen=True)
class Measurement:
    """All trials of one system on one workload, all over the same input.

    Invariant: without trials, `refused` or `failed` says why. `refused`: the system was not run, and that is no fault:
    it cannot answer this workload, or is not installed. `failed`: a run ended in an error, and the system was not asked
    again; earlier trials are kept. Figures are there only where there are trials."""

    workload: str
    system: str
    limits: Limits
    trials: tuple[Trial, ...] = ()
    refused: str | None = None
    failed: str | None = None

    @property
    def seconds(self) -> float:
        return statistics.median(trial.seconds for trial in self.trials)

    @property
    def spread(self) -> tuple[float, float]:
        """The fastest and the slowest trial, in seconds."""
        return min(trial.seconds for trial in self.trials), max(trial.seconds for trial in self.trials)

    @property
    def rows_per_second(self) -> float:
        return self.trials[0].rows_in / self.seconds

    @property
    def peak_memory_bytes(self) -> int:
        return max(trial.peak_memory_bytes for trial in self.trials)

    @property
    def epochs(self) -> int:
        """Of the trial with the fewest: a bar may ask for at least so many."""
        return min(trial.epochs for trial in self.trials)

    @property
    def profile(self) -> Profile | None:
        """Of the median trial, or of the faster of two; None where the system does not tell."""
        by_time = sorted(self.trials, key=lambda trial: trial.seconds)
        chosen = by_time[(len(by_time) - 1) // 2].profiles if by_time else ()
        return profile_of(chosen, self.limits.cores) if chosen else None

    @property
    def equal(self) -> bool:
        """Whether there are results, and all of them are right."""
        return bool(self.trials) and all(trial.equal for trial in self.trials)

    @property
    def holds(self) -> bool:
        """Whether nothing went wrong; a system that was not run did nothing wrong."""
        return self.failed is None and (self.refused is not None or self.equal)
