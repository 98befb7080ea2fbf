"""Apache Flink as a system under measurement: Flink SQL on Flink's own cluster within one JVM, event time, streaming
mode.

It counts at its best: the first run over some data tries every listed configuration, and that data remembers the
fastest, which the later runs use. The input is turned into column files before the time is taken, the result into
Parquet after it.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pyarrow.parquet as pq

from penstock.errors import ConfigError
from penstock_bench.flink.columns import read_table
from penstock_bench.flink.config import Configuration, checkpointed, listed_for
from penstock_bench.flink.environment import HINT, FlinkEnvironment, available
from penstock_bench.flink.input import ensure_input, folder_beside, table_statements
from penstock_bench.flink.process import Answer, FlinkProcess, Request
from penstock_bench.system import Limits, Outcome, System, count_rows
from penstock_bench.workload import Refused, Workload

LEAST_ROWS = 150_000  # of the largest stream; fewer are a warm-up, where every configuration must become warm
WARM_ROUNDS = 3  # how often a warm-up runs each: Java compiles what has run often

__all__ = ["Flink", "available", "flink", "flink_checkpoints"]


@dataclass(frozen=True)
class Run:
    """One answered query. `result` has its column files."""

    configuration: Configuration
    answer: Answer
    result: Path


class Flink:
    """One Flink for all runs. Without `only`, the fastest of the listed configurations counts."""

    def __init__(self, name: str, limits: Limits, scratch: Path, only: Configuration | None = None) -> None:
        self.name = name
        self._limits, self._scratch, self._only = limits, scratch, only
        self._process: FlinkProcess | None = None

    def prepare(self) -> None:
        reason = available()
        if reason is not None:
            raise ConfigError("Flink cannot be measured here", detail=reason, hint=HINT)
        limits = self._limits
        self._process = FlinkProcess(FlinkEnvironment(), limits.cores, limits.memory_gib, self._scratch / "logs")

    def run(self, workload: Workload, data_dir: Path, out_dir: Path) -> Outcome:
        best = self.fastest(workload, data_dir, out_dir)
        rows, result = read_table(best.result, best.answer.columns), out_dir / "rows"
        result.mkdir()
        pq.write_table(rows, result / "answer.parquet")
        return Outcome(best.answer.seconds, best.answer.rows_read, rows.num_rows, str(result))

    def fastest(self, workload: Workload, data_dir: Path, out_dir: Path) -> Run:
        tried = self._configurations(workload, data_dir)
        measured = max(count_rows(data_dir / stream) for stream in workload.streams) >= LEAST_ROWS
        rounds = 1 if measured else WARM_ROUNDS
        runs = [self.attempt(workload, data_dir, out_dir, one) for _ in range(rounds) for one in tried]
        best = min(runs, key=lambda run: run.answer.seconds)
        if measured and self._only is None:
            _remember(workload, data_dir, best.configuration)
        return best

    def attempt(self, workload: Workload, data_dir: Path, out_dir: Path, configuration: Configuration) -> Run:
        """The workload with one configuration."""
        assert self._process is not None, "prepare comes first"
        folder = ensure_input(data_dir, workload.streams, configuration.parallelism)
        result = out_dir / "columns" / uuid.uuid4().hex
        settings = configuration.settings(str(self._scratch.absolute() / "checkpoints"))
        request = Request(
            table_statements(workload, folder.absolute()), _text(workload), str(result.absolute()), settings
        )
        return Run(configuration, self._process.ask(request), result)

    def close(self) -> None:
        if self._process is not None:
            self._process.stop()

    def _configurations(self, workload: Workload, data_dir: Path) -> Sequence[Configuration]:
        if self._only is not None:
            return (self._only,)
        listed = listed_for(_text(workload), self._limits.cores)
        remembered = _remembered(workload, data_dir)
        return [one for one in listed if one.name == remembered] or listed


def flink(limits: Limits, scratch: Path) -> System:
    return Flink("flink", limits, scratch)


def flink_checkpoints(limits: Limits, scratch: Path) -> System:
    """Flink as it would be run where results must survive a crash."""
    return Flink("flink-checkpoints", limits, scratch, only=checkpointed(limits.cores))


def _text(workload: Workload) -> str:
    if isinstance(workload.flink, Refused):
        raise ConfigError(f"Flink cannot answer workload {workload.name}", detail=workload.flink.reason)
    return workload.flink


def _memory(workload: Workload, data_dir: Path) -> Path:
    return folder_beside(data_dir) / f"fastest-{workload.name}.json"


def _remember(workload: Workload, data_dir: Path, configuration: Configuration) -> None:
    _memory(workload, data_dir).write_bytes(msgspec.json.encode(configuration.name))


def _remembered(workload: Workload, data_dir: Path) -> str | None:
    file = _memory(workload, data_dir)
    return msgspec.json.decode(file.read_bytes(), type=str) if file.exists() else None
