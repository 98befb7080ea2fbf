"""Runs the benchmark: systems take turns, every run in a process of its own, every result checked.

Taking turns spreads what else the machine does over all systems; medians and spreads then say how far to trust them.
"""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from penstock.bench.child import Job, RunResult
from penstock.bench.data import ensure_data
from penstock.bench.launch import launch
from penstock.bench.oracle import closed_by_watermark, equal, rows_in
from penstock.bench.systems import Entry, Limits, system_named
from penstock.bench.workloads import Workload, workload_named
from penstock.errors import ConfigError

DEFAULT_ROWS = 4_000_000
WARM_ROWS = 100_000

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Trial:
    """One checked run."""

    seconds: float
    rows_in: int
    peak_memory_bytes: int
    equal: bool
    detail: str


@dataclass(frozen=True)
class Measurement:
    """All trials of one system on one workload. Invariant: at least one trial, all over the same input."""

    workload: str
    system: str
    limits: Limits
    trials: tuple[Trial, ...]

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
    def equal(self) -> bool:
        return all(trial.equal for trial in self.trials)


@dataclass(frozen=True)
class Pair:
    """A system with a workload, and the limits it is run with."""

    workload: Workload
    entry: Entry
    limits: Limits

    @property
    def label(self) -> str:
        return f"{self.workload.name} on {self.entry.name}"


def run_bench(
    workload_names: Sequence[str],
    systems: Sequence[str],
    rows: int = DEFAULT_ROWS,
    repeat: int = 3,
    work_dir: Path = Path("bench-work"),
    *,
    limits: Limits = Limits(),  # noqa: B008 - frozen, so sharing the default is safe
    files_per_trigger: Sequence[int] = (),
    tell: Tell = print,
) -> list[Measurement]:
    """Measure every system on every workload. With `files_per_trigger`, Spark first tries each of these batch sizes and
    keeps the fastest for all its trials."""
    if repeat < 1:
        raise ConfigError("a benchmark needs at least one repetition", detail=f"{repeat} asked for")
    pairs = [
        Pair(workload_named(workload), system_named(system), limits)
        for workload in dict.fromkeys(workload_names)
        for system in dict.fromkeys(systems)
    ]
    bench = _Bench(work_dir, rows, tell)
    if files_per_trigger:
        pairs = [bench.tuned(pair, files_per_trigger) for pair in pairs]
    rounds = [[bench.trial(pair, f"{number + 1}/{repeat}") for pair in pairs] for number in range(repeat)]
    return [
        Measurement(pair.workload.name, pair.entry.name, pair.limits, trials)
        for pair, trials in zip(pairs, zip(*rounds, strict=True), strict=True)
    ]


class _Bench:
    """The input, the work folder and the listener of one benchmark."""

    def __init__(self, work_dir: Path, rows: int, tell: Tell) -> None:
        self._work, self._rows, self._tell = work_dir.absolute(), rows, tell

    def trial(self, pair: Pair, turn: str) -> Trial:
        """One run of the pair, checked; its files are gone afterwards."""
        self._tell(f"{pair.label}, run {turn} ...")
        data, warm = self._data(pair.workload, self._rows), self._data(pair.workload, min(self._rows, WARM_ROWS))
        scratch = self._work / "runs" / f"{pair.workload.name}-{pair.entry.name}"
        job = Job(pair.entry.name, pair.workload.name, str(data), str(warm), str(scratch), pair.limits)
        try:
            result = launch(job, self._work / "logs" / f"{scratch.name}.log")
            trial = check(pair, result, data)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        self._tell(f"  {trial.seconds:.2f} s, {trial.rows_in / trial.seconds:,.0f} rows/s, {trial.detail}")
        return trial

    def tuned(self, pair: Pair, candidates: Sequence[int]) -> Pair:
        """The pair with the fastest of the batch sizes; only Spark's own streaming has such a setting."""
        if not pair.entry.name.startswith("spark"):
            return pair
        tried = [replace(pair, limits=replace(pair.limits, files_per_trigger=files)) for files in candidates]
        return min(tried, key=lambda one: self.trial(one, f"tuning, {one.limits.files_per_trigger} files").seconds)

    def _data(self, workload: Workload, rows: int) -> Path:
        return ensure_data(self._work / f"data-{'-'.join(workload.streams)}-{rows}", rows, workload.streams)


def check(pair: Pair, result: RunResult, data: Path) -> Trial:
    """The run with its verdict: it must have read all rows and given the batch answer."""
    closed = closed_by_watermark(pair.workload, data) if pair.entry.closes == "watermark" else None
    right, detail = equal(Path(result.result_path), pair.workload, data, closed)
    expected = rows_in(pair.workload, data)
    if result.rows_in != expected:
        right, detail = False, f"read {result.rows_in} of {expected} rows; {detail}"
    return Trial(result.seconds, result.rows_in, result.peak_memory_bytes, right, detail)
