"""A lull of one source: with `idle_advances` system time carries its mark on, in SQL and in Python, by a held clock."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from epoch_bench import Bench

import penstock as ps
from penstock.api.script import read_script
from penstock.api.streams import Stream
from penstock.engine.driver.commit import source_marks
from penstock.engine.driver.loop import Outcome
from penstock.errors import QueryError
from penstock.progress.mark import BEGIN
from tests.support.clock import SimulatedClock

SECOND = 1_000_000


def seconds(*times: float) -> pa.Table:
    return pa.table({"ts": pa.array([round(t * SECOND) for t in times], pa.timestamp("us"))})


def source(name: str, *batches: Sequence[float], advances: bool = True) -> Stream:
    """Ten seconds without rows are a lull; rows come at most two seconds out of order. A batch is an epoch."""
    parts = [seconds(*batch) for batch in batches]
    return ps.read.batches(
        parts, time="ts", progress=ps.slack("2s"), name=name, idle="10s", idle_advances=advances
    )  # fmt: skip


def tens(stream: Stream) -> Stream:
    return stream.window(ps.tumbling("10s")).agg(n=ps.count())


def counts(bench: Bench) -> dict[int, int]:
    """By the second at which a window starts."""
    rows = bench.result.to_pylist()
    return {round(row["window_start"].replace(tzinfo=UTC).timestamp()): row["n"] for row in rows}


def marks(bench: Bench, clock: SimulatedClock, *moments: float) -> list[float]:
    """The marks of the sources after a step at each of these moments, in seconds."""
    for moment in moments:
        clock.now = moment
        bench.step()
    return [mark.at / SECOND for mark in source_marks(bench.loop.manifest.sources)]


SILENT: list[Sequence[float]] = [[]] * 20


def test_a_lull_of_an_idle_source_closes_its_windows(clock: SimulatedClock, tmp_path: Path) -> None:
    bench = Bench(tens(source("s", [95, 101], *SILENT)), tmp_path, clock=clock)
    assert marks(bench, clock, 101.0, 110.0) == [99]
    assert counts(bench) == {}
    assert marks(bench, clock, 112.0) == [100]  # now, less ten seconds in which a row may be on its way, less the slack
    assert counts(bench) == {90: 1}
    assert marks(bench, clock, 121.0, 123.5) == [111]
    assert counts(bench) == {90: 1, 100: 1}


def test_rows_of_an_idle_source_that_resumes_below_its_mark_are_late(clock: SimulatedClock, tmp_path: Path) -> None:
    bench = Bench(tens(source("s", [95, 101], [], [], [109, 120, 125], [], [])), tmp_path, clock=clock)
    assert marks(bench, clock, 101.0, 112.0, 132.0) == [120]
    assert marks(bench, clock, 133.0) == [123]
    assert bench.late == 1
    bench.finish()
    assert counts(bench) == {90: 1, 100: 1, 120: 2}


def test_the_mark_of_an_idle_source_survives_a_restart_and_a_clock_that_goes_back(
    clock: SimulatedClock, tmp_path: Path
) -> None:
    bench = Bench(tens(source("s", [101], *SILENT)), tmp_path, clock=clock)
    assert marks(bench, clock, 101.0, 140.0) == [128]
    clock.now = 60.0
    bench.restart()
    assert marks(bench, clock, 61.0, 75.0, 139.0) == [128]
    assert marks(bench, clock, 150.0) == [138]
    assert counts(bench) == {100: 1}


def test_a_driver_that_was_down_does_not_take_its_own_absence_for_an_idle_source(
    clock: SimulatedClock, tmp_path: Path
) -> None:
    """The rows that came meanwhile wait; they are read, however old they are."""
    bench = Bench(tens(source("s", [101], [150], [160, 170], [], [])), tmp_path, clock=clock)
    marks(bench, clock, 101.0)
    clock.now = 5_000.0
    bench.restart()
    assert marks(bench, clock, 5_000.0, 5_100.0) == [168]
    bench.finish()
    assert (bench.late, counts(bench)) == (0, {100: 1, 150: 1, 160: 1, 170: 1})


def test_an_idle_source_that_goes_by_system_time_carries_those_that_may_be_idle(
    clock: SimulatedClock, tmp_path: Path
) -> None:
    one, other = source("one", [101], *SILENT), source("other", [104], *SILENT, advances=False)
    bench = Bench(tens(one.union(other)), tmp_path, clock=clock)
    assert marks(bench, clock, 104.0, 113.0) == [99, 102]
    assert marks(bench, clock, 122.0) == [110, 110]
    assert counts(bench) == {100: 2}


def test_an_idle_source_that_goes_by_system_time_does_not_carry_one_that_has_rows(
    clock: SimulatedClock, tmp_path: Path
) -> None:
    one, other = source("one", [101], *SILENT), source("other", *[[104]] * 20)
    bench = Bench(tens(one.union(other)), tmp_path, clock=clock)
    assert marks(bench, clock, 104.0, 122.0, 182.0) == [170, 102]
    assert (counts(bench), bench.late) == ({}, 0)


def test_a_source_that_never_showed_a_row_may_be_idle_and_advance(clock: SimulatedClock, tmp_path: Path) -> None:
    bench = Bench(tens(source("s", *SILENT).union(source("other", [104], *SILENT))), tmp_path, clock=clock)
    clock.now = 9.0
    assert bench.step()[0] == BEGIN
    assert marks(bench, clock, 122.0) == [110, 110]


def test_an_idle_source_does_not_make_an_epoch_of_every_look(clock: SimulatedClock, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    stream = ps.read.files(
        str(tmp_path / "in"), time="ts", schema={"ts": "TIMESTAMP"}, follow=True, idle="10s", idle_advances=True
    )
    bench, worked = Bench(tens(stream), tmp_path, clock=clock), 0
    for tenth in range(1_000, 1_200):  # twenty seconds
        clock.now = tenth / 10
        worked += bench.loop.step() is Outcome.WORKED
    assert worked == 20


def test_an_idle_source_advances_from_sql(clock: SimulatedClock, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("ts\n1970-01-01 00:01:41\n")
    script = read_script(f"""
        CREATE SOURCE s (ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
        WITH (connector = 'files', path = '{tmp_path / "in"}', follow = true, idle = '10s', idle_advances = true);
        CREATE SINK out WITH (connector = 'files', path = '{tmp_path / "out"}') AS
        SELECT window_start, count(*) AS n FROM TUMBLE(s, ts, INTERVAL '10' SECOND) GROUP BY window_start;""")
    bench = Bench(Stream(script.queries[0].ready.sink.input), tmp_path, clock=clock)
    assert marks(bench, clock, 101.0) == [99]
    assert marks(bench, clock, 122.0) == [110]
    assert bench.result["window_start"].to_pylist() == [datetime(1970, 1, 1, 0, 1, 40)]


# -- where system time has no meaning ---------------------------------------------------------------------------------


SQL = "CREATE SOURCE s (n BIGINT, ts TIMESTAMP, WATERMARK FOR {time} AS {time}) WITH (connector = 'files', {options});"


@pytest.mark.parametrize(
    ("time", "options", "what"),
    [
        ("n", "path = 'p', idle = '1s', idle_advances = true", "system time cannot advance the mark of source `s`"),
        ("ts", "path = 'p', idle_advances = true", "source `s` does not say when it is idle"),
        ("ts", "path = 'p', idle = '1s', idle_advances = 'perhaps'", "`idle_advances` cannot be `perhaps`"),
    ],
)
def test_what_is_refused_of_an_idle_source_in_sql(time: str, options: str, what: str) -> None:
    with pytest.raises(QueryError) as raised:
        read_script(SQL.format(time=time, options=options))
    assert what in raised.value.what
    assert raised.value.detail
    assert raised.value.hint


def test_what_is_refused_of_an_idle_source_in_python() -> None:
    numbers = pa.table({"ts": [1]})
    with pytest.raises(QueryError, match="system time cannot advance") as raised:
        ps.read.batches([numbers], time="ts", idle="1s", idle_advances=True)
    assert "BIGINT" in str(raised.value.detail)
    with pytest.raises(QueryError, match="does not say when it is idle"):
        ps.read.calls(idle_advances=True)


def test_an_idle_source_that_is_held_back_has_rows_waiting(clock: SimulatedClock, tmp_path: Path) -> None:
    """It leads the other by more than it may, so it is not asked, for minutes: its rows are not late for that."""
    ahead = source("ahead", [500], [501], [502], [], [])
    behind = source("behind", *[[t] for t in range(0, 600, 20)])
    bench = Bench(tens(ahead.union(behind)), tmp_path, {"max_lead": 30 * SECOND, "rows_per_epoch": 2}, clock=clock)
    clock.now = 500.0
    for _ in range(60):
        bench.step()
        clock.now += 100.0
        if bench.loop.manifest.finished:
            break
    assert bench.loop.manifest.finished
    assert (bench.late, bench.loop.manifest.totals.rows_in) == (0, 33)
