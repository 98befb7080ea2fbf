"""Runs the benchmark: systems take turns, every run in a process of its own, every result checked.

Taking turns spreads what else the machine does over all systems; medians and spreads then say how far to trust them. A
system that fails is not asked again, and takes nothing from the others.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ParamSpec

from penstock.errors import ConfigError, PenstockError
from penstock_bench.check.oracle import closed_by_watermark, equal, rows_in
from penstock_bench.rows.data import ensure_data
from penstock_bench.rows.stream import FILES
from penstock_bench.run.child import Job, RunResult
from penstock_bench.run.launch import launch
from penstock_bench.run.measurement import Measurement, Trial
from penstock_bench.run.pairs import Pair, chosen_pairs
from penstock_bench.system import Limits
from penstock_bench.workload import Workload

__all__ = ["DEFAULT_ROWS", "Measurement", "Trial", "check", "measured_workloads", "run_bench"]

DEFAULT_ROWS = 4_000_000
WARM_ROWS = 400_000

P = ParamSpec("P")
Tell = Callable[[str], None]


def measured_workloads(
    workloads: Sequence[str] = (),
    systems: Sequence[str] = (),
    rows: int = DEFAULT_ROWS,
    repeat: int = 3,
    work_dir: Path = Path("bench-work"),
    *,
    limits: Limits = Limits(),  # noqa: B008 - frozen, so sharing the default is safe
    files_per_trigger: Sequence[int] = (),
    tell: Tell = print,
) -> Iterator[list[Measurement]]:
    """Measure every system on every workload; without names, all of them. Workloads come one after another, so that
    each can be reported as it is finished; systems take turns on it. With `files_per_trigger`, Spark first tries each
    of these batch sizes and keeps the fastest for all its trials."""
    if repeat < 1:
        raise ConfigError("a benchmark needs at least one repetition", detail=f"{repeat} asked for")
    if rows < FILES:
        raise ConfigError(f"a benchmark needs at least {FILES} rows", detail=f"{rows} asked for")
    entrants = [_Entrant(pair) for pair in chosen_pairs(workloads, systems, limits)]
    bench = _Bench(work_dir, rows, tell)
    for name in dict.fromkeys(entrant.pair.workload.name for entrant in entrants):
        yield bench.measure([one for one in entrants if one.pair.workload.name == name], repeat, files_per_trigger)


def _together(measured: Callable[P, Iterator[list[Measurement]]]) -> Callable[P, list[Measurement]]:
    """Return a function that takes the same arguments and gives all measurements in one list, once all are there."""

    def measure(*arguments: P.args, **options: P.kwargs) -> list[Measurement]:
        return [one for finished in measured(*arguments, **options) for one in finished]

    return measure


run_bench = _together(measured_workloads)


@dataclass
class _Entrant:
    """A pair on its way through the turns. Invariant: once `failed` is set, no trial is added."""

    pair: Pair
    trials: list[Trial] = field(default_factory=list)
    failed: str | None = None

    def __post_init__(self) -> None:
        self.failed = self.pair.missing

    @property
    def runs(self) -> bool:
        return self.failed is None and self.pair.refused is None

    def measurement(self) -> Measurement:
        pair = self.pair
        return Measurement(
            pair.workload.name, pair.entry.name, pair.limits, tuple(self.trials), pair.refused, self.failed
        )


class _Bench:
    """The input, the work folder and the listener of one benchmark."""

    def __init__(self, work_dir: Path, rows: int, tell: Tell) -> None:
        self._work, self._rows, self._tell = work_dir.absolute(), rows, tell

    def measure(self, entrants: Sequence[_Entrant], repeat: int, candidates: Sequence[int]) -> list[Measurement]:
        """Let the entrants of one workload take their turns."""
        self.tune(entrants, candidates)
        for turn in range(repeat):
            for entrant in entrants:
                self.take_turn(entrant, f"{turn + 1}/{repeat}")
        return [entrant.measurement() for entrant in entrants]

    def take_turn(self, entrant: _Entrant, turn: str) -> None:
        """One more trial of the entrant, or its failure."""
        if not entrant.runs:
            return
        try:
            entrant.trials.append(self._trial(entrant.pair, turn))
        except PenstockError as error:
            entrant.failed = str(error)
            self._tell(f"  failed: {error}")

    def tune(self, entrants: Iterable[_Entrant], candidates: Sequence[int]) -> None:
        """Give each Spark the fastest of the batch sizes; no other system has such a setting."""
        for entrant in entrants:
            if candidates and entrant.runs and entrant.pair.entry.name.startswith("spark"):
                self._tune(entrant, candidates)

    def _tune(self, entrant: _Entrant, candidates: Sequence[int]) -> None:
        limits = entrant.pair.limits
        tried = [_Entrant(replace(entrant.pair, limits=replace(limits, files_per_trigger=n))) for n in candidates]
        for one in tried:
            self.take_turn(one, f"tuning, {one.pair.limits.files_per_trigger} files")
        done = [one for one in tried if one.runs]
        if not done:
            entrant.failed = tried[0].failed
        else:
            entrant.pair = min(done, key=lambda one: one.trials[0].seconds).pair

    def _trial(self, pair: Pair, turn: str) -> Trial:
        """One run of the pair, checked; its files are gone afterwards."""
        self._tell(f"{pair.label}, run {turn} ...")
        rows = max(FILES, round(self._rows * pair.workload.share))
        data, warm = self._data(pair.workload, rows), self._data(pair.workload, min(rows, WARM_ROWS))
        scratch = self._work / "runs" / f"{pair.workload.name}-{pair.entry.name}"
        job = Job(pair.entry.name, pair.workload.name, str(data), str(warm), str(scratch), pair.limits)
        try:
            trial = check(pair, launch(job, self._work / "logs" / f"{scratch.name}.log"), data)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        self._tell(f"  {trial.seconds:.2f} s, {trial.rows_in / trial.seconds:,.0f} rows/s, {trial.detail}")
        return trial

    def _data(self, workload: Workload, rows: int) -> Path:
        return ensure_data(self._work / f"data-{rows}", rows, workload.streams)


def check(pair: Pair, result: RunResult, data: Path) -> Trial:
    """The run with its verdict: it must have read all rows and given the batch answer."""
    closed = closed_by_watermark(pair.workload, data) if pair.entry.closes == "watermark" else None
    compared = equal(Path(result.result_path), pair.workload, data, closed)
    right, detail, expected = compared.equal, compared.detail, rows_in(pair.workload, data)
    if result.rows_in != expected:
        right, detail = False, f"read {result.rows_in} of {expected} rows; {detail}"
    return Trial(
        result.seconds,
        result.rows_in,
        result.peak_memory_bytes,
        right,
        detail,
        result.rows_out,
        result.epochs,
        result.profiles,
    )
