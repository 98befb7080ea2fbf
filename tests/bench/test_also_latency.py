"""Rows that arrive at a rate: when files come, when results are seen, and the time between."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import PenstockError
from penstock_bench.experiments.arrivals import delays, feed, moments_of_windows, prepared, published_by_spark
from penstock_bench.experiments.experiment import Setting
from penstock_bench.experiments.latency_plot import write_plot
from penstock_bench.experiments.latency_run import Followers, Point, Size
from penstock_bench.experiments.live_run import PERIOD, Follower
from penstock_bench.experiments.live_turn import Turn
from penstock_bench.experiments.part import Part


class InProcess:
    """A part without a process."""

    def __init__(self) -> None:
        self._follower = Follower()

    def ask(self, question: Any, answer: type[float]) -> float:
        return self._follower.obey(replace(question, master="inline"))


class Clock:
    """Time goes on when somebody sleeps, and a little when somebody looks."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_files_arrive_one_per_period(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("time.sleep", clock.sleep)
    files = prepared(tmp_path / "hidden", rate=200, seconds=0.5)
    assert [pq.read_metadata(file).num_rows for file in files] == [20] * 5
    (tmp_path / "rows").mkdir()
    moments = feed(files, tmp_path / "rows", clock)
    steps = [after - before for before, after in pairwise(moments)]
    assert steps == pytest.approx([PERIOD / 1e6] * 4, abs=0.01)
    assert sorted(os.listdir(tmp_path / "rows")) == [f"{n:06d}.parquet" for n in range(5)]


def test_every_file_holds_its_own_period(tmp_path: Path) -> None:
    for number, file in enumerate(prepared(tmp_path / "hidden", rate=1_000, seconds=0.3)):
        times = pq.read_table(file).column("ts").cast(pa.int64()).to_pylist()
        assert times[0] == number * PERIOD
        assert times[-1] < (number + 1) * PERIOD


def test_a_window_waits_for_the_file_behind_it() -> None:
    arrived, published = [10.0, 11.0, 12.0, 13.0], {0: 11.5, 1: 12.25, 2: 13.125}
    assert delays(arrived, published, skipped=0) == [0.5, 0.25, 0.125]
    assert delays(arrived, published, skipped=2) == [0.125]


def _results(path: Path, *windows: int) -> None:
    starts = pa.array([window * PERIOD for window in windows], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"window_start": starts}), path)


def test_a_window_is_out_with_its_last_file(tmp_path: Path) -> None:
    _results(tmp_path / "x.parquet", 1, 2, 2)
    _results(tmp_path / "y.parquet", 2, 3)
    published = [(5.0, tmp_path / "y.parquet"), (4.0, tmp_path / "x.parquet")]
    assert moments_of_windows(published) == {1: 4.0, 2: 5.0, 3: 5.0}


def test_spark_has_published_what_its_log_lists(tmp_path: Path) -> None:
    """A later log that repeats the earlier ones does not change when a file was listed first."""
    log = tmp_path / "_spark_metadata"
    log.mkdir()
    names = [f"part {n}.parquet" for n in range(3)]
    for file, listed in {"0": names[:1], "9.compact": names[:2], "10": names[2:]}.items():
        entries = [json.dumps({"path": f"file://{tmp_path}/{name}".replace(" ", "%20")}) for name in listed]
        (log / file).write_text("\n".join(["v1", *entries]))
    (log / ".0.crc").write_text("")
    found = list(published_by_spark(tmp_path))
    assert [path for _, path in found] == [tmp_path / name for name in names]
    moments = [(log / name).stat().st_ctime for name in ("0", "9.compact", "10")]
    assert [moment for moment, _ in found] == moments


@pytest.fixture
def followers(tmp_path: Path) -> Followers:
    parts = {"penstock": cast(Part, InProcess())}
    size = Size(backlog=3_000, seconds=1.0, skipped=0.2)
    return Followers(Setting(work=tmp_path, tell=lambda text: None), size, tmp_path, parts)


def test_a_system_is_followed_from_files_to_checked_delays(followers: Followers) -> None:
    point = followers.point("penstock", "penstock", share=0.5, maximum=4_000.0)
    assert point.equal
    assert point.rate == 2_000.0
    assert len(point.delays) == 7
    assert all(delay > 0 for delay in point.delays)
    assert not any(followers.folder.iterdir())


def test_the_maximum_is_rows_over_seconds(followers: Followers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Turn, "until_through", _after(Turn.until_through, seconds=2.0))
    assert followers.maximum("penstock") == 1_500.0


def _after(through: Any, seconds: float) -> Any:
    def until(turn: Turn) -> float:
        through(turn)
        return seconds

    return until


def test_a_wrong_answer_is_not_a_maximum(followers: Followers, monkeypatch: pytest.MonkeyPatch) -> None:
    def spoiled(turn: Turn) -> float:
        waited = through(turn)
        next(turn.results.glob("*.parquet")).unlink()
        return waited

    through = Turn.until_through
    monkeypatch.setattr(Turn, "until_through", spoiled)
    with pytest.raises(PenstockError, match="penstock gave a wrong answer"):
        followers.maximum("penstock")


def test_the_curve_is_drawn(tmp_path: Path) -> None:
    points = [
        Point(system, system, share, share * 1e5, (0.1, 0.2 + share), True)
        for system in ("penstock", "spark")
        for share in (0.25, 0.5)
    ]
    picture = write_plot(points, tmp_path / "pictures" / "latency.png")
    assert picture.read_bytes().startswith(b"\x89PNG")
