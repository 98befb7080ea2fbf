"""Sites that are slowed for experiments."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import penstock as ps
from penstock.engine.task import level
from penstock.engine.task.site.step import site_step
from penstock.testing import assert_same_rows
from penstock_bench.adapt import slowdown as module
from penstock_bench.adapt.lanes import MODULE
from penstock_bench.adapt.slowdown import (
    VARIABLE,
    Slowdown,
    Slowed,
    current_slowdown,
    slowable,
    write_slowdown,
)
from penstock_bench.adapt.timeline import Timeline
from penstock_bench.adapt.watched_run import Option, Question
from penstock_bench.experiments.part import ask
from penstock_bench.rows.data import ensure_data
from penstock_bench.workloads import workload_named

SLOWDOWN = Slowdown(began=1000.0, row_seconds=0.01, slowed=(Slowed(2, 5.0, 8.0), Slowed(2, 7.0, 9.0, again=3.0)))


@pytest.mark.parametrize(
    ("site", "now", "pause"),
    [(0, 1006.0, 1.0), (2, 1004.9, 1.0), (2, 1005.0, 2.5), (2, 1007.5, 7.0), (2, 1008.0, 5.5), (2, 1009.0, 1.0)],
)
def test_a_slowed_site_takes_as_long_again_while_it_is_slowed(site: int, now: float, pause: float) -> None:
    assert SLOWDOWN.pause(site, rows=100, took=0.5, now=now) == pytest.approx(pause)


def test_nothing_is_slowed_unless_a_file_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert current_slowdown() is None
    monkeypatch.setenv(VARIABLE, str(tmp_path / "missing.json"))
    assert current_slowdown() is None


def test_a_file_that_is_replaced_is_read_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "slowdown.json"
    monkeypatch.setenv(VARIABLE, str(path))
    write_slowdown(SLOWDOWN, path)
    os.utime(path, ns=(1, 1))
    assert current_slowdown() == SLOWDOWN
    write_slowdown(Slowdown(1.0), path)
    assert current_slowdown() == Slowdown(1.0)


ROWS = pa.table({"ts": list(range(400)), "k": [n % 40 for n in range(400)]})


def joined(folder: Path) -> pa.Table:
    """Run a join on four sites of this process."""
    a, b = (
        ps.read.batches([ROWS.slice(at, 100) for at in range(0, 400, 100)], time="ts", progress=ps.ordered(), name=name)
        for name in ("a", "b")
    )
    run = a.join(b, on="k", within=50).to.memory().start(str(folder), master="inline", sites=4, policy="static")
    run.wait()
    return run.result()


def test_every_row_costs_its_sleep_and_a_slowed_site_sleeps_for_longer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    slept: Counter[int] = Counter()
    calm, rows = joined(tmp_path / "calm"), Counter[int]()

    def pause(slowdown: Slowdown, site: int, of: int, took: float, now: float) -> float:
        rows[site] += of
        slept[site] += round(1e6 * asked(slowdown, site, of, 0.0, now))
        return 0.0

    asked = Slowdown.pause
    monkeypatch.setattr(Slowdown, "pause", pause)
    monkeypatch.setenv(VARIABLE, "")
    with slowable("inline") as file:
        write_slowdown(Slowdown(0.0, 1e-6, (Slowed(1, 0.0, 1e12),)), file)
        assert_same_rows(joined(tmp_path / "slowed"), calm)
    assert (sum(rows.values()), sorted(rows)) == (2 * 400, [0, 1, 2, 3])
    assert slept == {site: worked * (2 if site == 1 else 1) for site, worked in rows.items()}


def test_sites_are_as_fast_as_ever_after_the_experiment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(VARIABLE, "")
    with slowable("inline") as file:
        assert vars(level)["site_step"] is module.slowed_site_step
        write_slowdown(Slowdown(0.0), file)
    assert vars(level)["site_step"] is site_step
    assert not file.exists()


@pytest.mark.spark
def test_the_workers_of_spark_are_slowed(tmp_path: Path) -> None:
    """With a single site, epochs cannot be shorter than the sleep of the rows that they worked through."""
    data = ensure_data(tmp_path / "data", 4_000, workload_named("band").streams)
    settings: dict[str, Option] = {"sites": 1, "item_rows": 200, "epoch_seconds": 0.2, "deadline_seconds": 0.2}
    question = Question("band", str(data), str(tmp_path / "run"), settings, row_seconds=0.0005, master="local[1]")
    seen = ask(MODULE, question, Timeline, tmp_path / "run.log")
    done = sum(epoch.done for epoch in seen.epochs)
    assert seen.equal
    assert done > 0
    assert sum(epoch.seconds for epoch in seen.epochs) >= 0.0005 * done
