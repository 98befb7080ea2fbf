"""`penstock bench order`: the same packets in order and out of order, in turns, every result checked.

Both modes read the same rows in the same epochs, in this process, and both must give DuckDB's batch answer; so they
also agree with each other.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from penstock.errors import ConfigError, PenstockError
from penstock.testing import batch_answer
from penstock.testing.source_rows import tables_of
from penstock_bench.order.experiments import EXPERIMENTS, FULL, Experiment, Size
from penstock_bench.order.held import Held
from penstock_bench.order.latency import Latency, latency
from penstock_bench.order.run import MODES, Mode, Trial, run_trial, same_epochs

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Measured:
    """One mode at one point of an experiment. `held` is the peak over the epochs; the seconds are those of the median
    turn."""

    experiment: Experiment
    point: int
    mode: Mode
    held: Held
    seconds: float
    cpu_seconds: float
    epochs: int
    rows_in: int
    rows_out: int
    latency: Latency | None
    equal: bool


@dataclass(frozen=True)
class Comparison:
    """Both modes at one point."""

    in_order: Measured
    out_of_order: Measured
    bar: float | None

    @property
    def ratio(self) -> float:
        """What out of order holds, of what in order holds."""
        return self.out_of_order.held.total / max(1, self.in_order.held.total)

    @property
    def holds(self) -> bool:
        """Whether both results are right, and the bar is met where there is one."""
        right = self.in_order.equal and self.out_of_order.equal
        return right and (self.bar is None or self.ratio <= self.bar)

    @property
    def both(self) -> tuple[Measured, Measured]:
        return self.in_order, self.out_of_order


def measured_points(
    experiments: Sequence[Experiment] = tuple(EXPERIMENTS.values()),
    size: Size = FULL,
    repeat: int = 1,
    tell: Tell = print,
) -> Iterator[Comparison]:
    """Measure experiments at all their points, one after another."""
    if repeat < 1:
        raise ConfigError("a benchmark needs at least one repetition", detail=f"{repeat} asked for")
    points = [(experiment, point) for experiment in experiments for point in experiment.measured_points(size)]
    for number, (experiment, point) in enumerate(points, 1):
        compared = _compare(experiment, point, size, repeat)
        tell(f"[{number}/{len(points)}] {_summary(compared)}")
        yield compared


def _compare(experiment: Experiment, point: int, size: Size, repeat: int) -> Comparison:
    stream = experiment.ask(experiment, point, size)
    turns = [[run_trial(stream, mode) for mode in MODES] for _ in range(repeat)]
    if not same_epochs([trial for turn in turns for trial in turn]):
        raise PenstockError("the two modes were not given the same epochs", detail=f"{experiment.name} at {point}")
    tables = tables_of(stream.node)
    answer, rows_in = batch_answer(stream.node, tables), sum(table.num_rows for table in tables.values())
    in_order, out_of_order = (
        _measured(experiment, point, size, rows_in, answer, trials) for trials in zip(*turns, strict=True)
    )
    bar = experiment.bar if point == experiment.points[-1] else None
    return Comparison(in_order, out_of_order, bar)


def _measured(
    experiment: Experiment, point: int, size: Size, rows_in: int, answer: pa.Table, trials: Sequence[Trial]
) -> Measured:
    windows = experiment.covered(point) if experiment.covered else None
    delays = [latency(trial.epochs, windows, experiment.epoch * size.stretch) for trial in trials] if windows else []
    return Measured(
        experiment=experiment,
        point=point,
        mode=trials[0].mode,
        held=max((trial.peak for trial in trials), key=lambda held: held.total),
        seconds=statistics.median(trial.seconds for trial in trials),
        cpu_seconds=statistics.median(trial.cpu_seconds for trial in trials),
        epochs=len(trials[0].epochs),
        rows_in=rows_in,
        rows_out=answer.num_rows,
        latency=sorted(delays, key=lambda one: one.seconds)[len(delays) // 2] if delays else None,
        equal=all(differing_rows(trial.results, answer) == 0 for trial in trials),
    )


def differing_rows(found: pa.Table, expected: pa.Table) -> int:
    """How many rows are only in one of two tables, as multisets."""
    with duckdb.connect() as connection:
        connection.register("found", found)
        connection.register("expected", expected)
        counts = connection.execute(
            """SELECT count(*) FROM (SELECT * FROM found EXCEPT ALL SELECT * FROM expected)
               UNION ALL SELECT count(*) FROM (SELECT * FROM expected EXCEPT ALL SELECT * FROM found)"""
        ).fetchall()
    return sum(int(count) for (count,) in counts)


def _summary(one: Comparison) -> str:
    measured = one.in_order
    verdict = "equal" if one.in_order.equal and one.out_of_order.equal else "NOT EQUAL"
    held = f"{one.in_order.held.total / 1e6:.2f} and {one.out_of_order.held.total / 1e6:.2f} MB held"
    return f"{measured.experiment.name}, {measured.experiment.axis} {measured.point}: {held}, {verdict}"
