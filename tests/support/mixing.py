"""An executor that mixes the reports of two runs of an epoch, as Spark may after it has lost files."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.engine.driver.executor import Executor
from penstock.engine.wire.job import EpochJob, LookAhead, Report, RouteTask, nothing_follows


class MixingExecutor:
    """Runs an epoch twice and returns reports of both, the first `times` times: as Spark may after it has lost files.
    `from_second(report)` chooses which reports are of the second run."""

    def __init__(self, inner: Executor, times: int, from_second: Callable[[Report], bool]) -> None:
        self._inner, self._left, self._from_second = inner, times, from_second

    def run(self, job: EpochJob, routes: Sequence[RouteTask], following: LookAhead = nothing_follows) -> list[Report]:
        first = self._inner.run(job, routes, following)
        if self._left == 0:
            return first
        self._left -= 1
        second = {report.producer: report for report in self._inner.run(job, routes, following)}
        return [second[report.producer] if self._from_second(report) else report for report in first]

    def cancel(self) -> None:
        self._inner.cancel()

    def close(self) -> None:
        self._inner.close()
