"""Epochs on a crew where there is one, and as jobs of Spark where not."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from penstock.engine.driver.executor import Executor
from penstock.engine.wire.job import EpochJob, Following, Report, RouteTask, nothing_follows
from penstock.errors import PenstockError
from penstock.spark.failures import TRIES, task_failed
from penstock.spark.workers.pool import Crew, CrewLost
from penstock.spark.workers.scheduler import Shift


class Housing(Protocol):
    """Where a crew lives."""

    def shift(self) -> AbstractContextManager[Shift | None]:
        """The crew at work, for one epoch, and for nobody else at the same time; None where there is none now."""
        ...

    def wanted(self) -> bool:
        """Whether others wait for the crew, or for its cores."""
        ...

    def lost(self, crew: Crew) -> None:
        """The crew is of no use any more."""
        ...


class CrewExecutor:
    """Runs epochs on the crew of `quarters`, and by `jobs` while there is none. `folder` is where Spark has its files,
    which need not be known."""

    def __init__(self, quarters: Housing, jobs: Executor, folder: Path | None = None) -> None:
        self._quarters, self._jobs, self._folder = quarters, jobs, folder
        self._crew: Crew | None = None  # the one that an epoch of this query is running on
        self._cancelled = False

    def run(self, job: EpochJob, routes: Sequence[RouteTask], following: Following = nothing_follows) -> list[Report]:
        self._cancelled, told = False, ""
        for _ in range(TRIES):
            with self._quarters.shift() as shift:
                if shift is None:
                    break
                try:
                    return self._on_crew(shift, job, routes, following)
                except CrewLost as error:
                    told = str(error)
            if self._cancelled:
                raise PenstockError(f"epoch {job.epoch} was given up")
        else:
            raise task_failed(job.epoch, told, self._folder)
        return self._jobs.run(job, routes)

    def _on_crew(self, shift: Shift, job: EpochJob, routes: Sequence[RouteTask], following: Following) -> list[Report]:
        self._crew = shift.crew
        try:
            return shift.run(job, routes, lambda told: None if self._quarters.wanted() else following(told))
        except BaseException:
            self._quarters.lost(shift.crew)  # who knows what its members are still at
            raise
        finally:
            self._crew = None

    def cancel(self) -> None:
        self._cancelled = True
        if (crew := self._crew) is not None:
            self._quarters.lost(crew)
        self._jobs.cancel()

    def close(self) -> None:
        """Nothing: the next query finds the crew warm."""
