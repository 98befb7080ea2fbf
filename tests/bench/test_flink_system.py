"""Flink as a system, without Flink: the choice of a configuration, the process and the environment."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from penstock.errors import ConfigError, PenstockError
from penstock_bench.flink import system as flink_system
from penstock_bench.flink.config import Configuration, checkpointed, listed_for
from penstock_bench.flink.environment import FlinkEnvironment
from penstock_bench.flink.process import Answer, FlinkProcess, Request
from penstock_bench.flink.system import WARM_ROUNDS, Flink
from penstock_bench.rows.data import ensure_data
from penstock_bench.system import Limits
from penstock_bench.workloads import workload_named

ROWS = 1_000
TUMBLE = workload_named("tumble")


@dataclass
class FakeFlink:
    """Takes 1 s with one slot, and 2 s with more; its result is the column k with the number of slots."""

    asked: list[dict[str, str]] = field(default_factory=list)

    def ask(self, request: Request) -> Answer:
        self.asked.append(request.settings)
        slots = int(request.settings["parallelism.default"])
        part = Path(request.out) / "0"
        part.mkdir(parents=True)
        np.array([slots]).tofile(part / "k.values")
        (part / "rows.count").write_text("1")
        return Answer(seconds=float(min(slots, 2)), rows_read=ROWS, columns=(("k", "BIGINT"),))

    def stop(self) -> None:
        pass


def _flink(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, only: Configuration | None = None
) -> tuple[Flink, FakeFlink]:
    fake, system = FakeFlink(), Flink("flink", Limits(), tmp_path / "scratch", only)
    monkeypatch.setattr(flink_system, "available", lambda: None)
    monkeypatch.setattr(flink_system, "FlinkProcess", lambda *_: fake)
    system.prepare()
    return system, fake


def _out(tmp_path: Path, name: str) -> Path:
    (tmp_path / name).mkdir()
    return tmp_path / name


def _slots(asked: Sequence[dict[str, str]]) -> list[int]:
    return [int(settings["parallelism.default"]) for settings in asked]


def test_the_fastest_configuration_counts_and_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flink_system, "LEAST_ROWS", ROWS)
    system, fake = _flink(tmp_path, monkeypatch)
    data = ensure_data(tmp_path / "data", ROWS, ("a",))
    outcome = system.run(TUMBLE, data, _out(tmp_path, "first"))
    assert _slots(fake.asked) == [2, 2, 2, 1]
    assert (outcome.seconds, outcome.rows_in, outcome.rows_out) == (1.0, ROWS, 1)
    assert pq.read_table(outcome.result_path)["k"].to_pylist() == [1]
    system.run(TUMBLE, data, _out(tmp_path, "second"))
    assert _slots(fake.asked[4:]) == [1]


def test_little_data_warms_up_every_configuration_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system, fake = _flink(tmp_path, monkeypatch)
    data = ensure_data(tmp_path / "data", ROWS, ("a",))
    for name in ("first", "second"):
        system.run(TUMBLE, data, _out(tmp_path, name))
    assert _slots(fake.asked) == [2, 2, 2, 1] * (2 * WARM_ROUNDS)


def test_a_system_of_one_configuration_does_not_choose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flink_system, "LEAST_ROWS", ROWS)
    data = ensure_data(tmp_path / "data", ROWS, ("a",))
    asked = []
    for number, only in enumerate((None, checkpointed(2), None)):
        system, fake = _flink(tmp_path, monkeypatch, only)
        system.run(TUMBLE, data, _out(tmp_path, f"out-{number}"))
        asked.append(["execution.checkpointing.interval" in settings for settings in fake.asked])
    assert asked == [[False] * 4, [True], [False]]


def test_a_refused_workload_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system, _ = _flink(tmp_path, monkeypatch)
    theta = workload_named("theta")
    data = ensure_data(tmp_path / "data", ROWS, theta.streams)
    with pytest.raises(ConfigError, match="cannot answer workload theta"):
        system.run(theta, data, _out(tmp_path, "out"))


def test_what_tunes_aggregates_is_tried_for_aggregates_only() -> None:
    aggregate = {one.name: one.settings("/cp") for one in listed_for("SELECT k FROM a GROUP BY k", 2)}
    join = {one.name: one.settings("/cp") for one in listed_for("SELECT a.k FROM a JOIN b ON a.k = b.k", 2)}
    assert {settings["parallelism.default"] for settings in join.values()} == {"1", "2"}
    assert set(join) < set(aggregate)
    assert {settings.get("table.exec.mini-batch.enabled") for settings in aggregate.values()} == {None, "true"}
    for settings in (*aggregate.values(), *join.values()):
        assert settings["state.backend.type"] == "hashmap"
        assert settings["pipeline.object-reuse"] == "true"
        assert "execution.checkpointing.interval" not in settings


def _environment(folder: Path, script: str) -> FlinkEnvironment:
    """An environment whose Python is a script of the shell."""
    environment = FlinkEnvironment(folder)
    environment.python.parent.mkdir(parents=True)
    environment.python.write_text(f"#!/bin/sh\n{script}\n")
    environment.python.chmod(0o755)
    return environment


REQUEST = Request((), "SELECT 1", "/nowhere", {})


def test_the_process_answers_and_its_errors_are_told(tmp_path: Path) -> None:
    lines = ['{"ready": true}', '{"seconds": 2.5, "columns": [["k", "BIGINT"]]}', '{"error": "no such table"}']
    script = f"echo '{lines[0]}'; read one; echo '{lines[1]}'; read two; echo '{lines[2]}'; read three"
    process = FlinkProcess(_environment(tmp_path / "env", script), 2, 1, tmp_path / "logs")
    try:
        assert process.ask(REQUEST) == Answer(seconds=2.5, columns=(("k", "BIGINT"),))
        with pytest.raises(PenstockError, match="could not answer") as raised:
            process.ask(REQUEST)
        assert "no such table" in raised.value.detail
    finally:
        process.stop()


def test_a_process_that_ends_is_told(tmp_path: Path) -> None:
    with pytest.raises(PenstockError, match="exit code 3"):
        FlinkProcess(_environment(tmp_path / "env", "exit 3"), 2, 1, tmp_path / "logs")


def test_an_environment_that_is_missing_or_out_of_date_says_what_to_do(tmp_path: Path) -> None:
    environment = FlinkEnvironment(tmp_path)
    assert "not installed (make flink" in str(environment.missing())
    environment.stamp.touch()
    assert environment.missing() is None
    os.utime(environment.stamp, (0, 0))
    assert "has changed" in str(environment.missing())
