"""Whole queries over sources with substreams that finish and parts that fall silent, by a clock that the test holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from epoch_bench import NOTHING, Bench, tens, times

import penstock as ps
from penstock.api.streams import Stream
from penstock.engine.driver.commit import source_marks
from penstock.engine.driver.executor import InlineExecutor
from penstock.engine.driver.loop import Outcome
from penstock.engine.wire.job import EpochJob, LookAhead, Report, RouteTask, nothing_follows
from penstock.progress.mark import BEGIN, END, MIN_TIME, at
from penstock.testing import Way, assert_same_rows, batch_answer
from penstock.testing.oracle import answer_and_late
from penstock.testing.oracle.relation import MARK
from tests.support.clock import SimulatedClock
from tests.support.reading_ahead import ReadingAhead

# -- substreams --------------------------------------------------------------------------------------------------------


def write_files(folder: Path) -> pa.Table:
    """Three files, each in order of time, of which one has many rows for a time, one some, and one few."""
    folder.mkdir()
    whole = []
    for name, step in (("fast", 1), ("middle", 3), ("slow", 20)):
        whole.append(times(*range(0, 200, step)))
        pq.write_table(whole[-1], folder / f"{name}.parquet", row_group_size=2)
    return pa.concat_tables(whole)


def test_files_each_in_order_are_exact_whatever_their_speed(tmp_path: Path) -> None:
    rows = write_files(tmp_path / "in")
    query = tens(ps.read.files(str(tmp_path / "in"), time="ts", substreams="files"))
    bench = Bench(query, tmp_path, {"rows_per_epoch": 12})
    seen = [bench.step()[0] for _ in range(4)]
    assert seen == sorted(seen)
    assert seen[0] > BEGIN
    assert bench.counts, "nothing came out before the end"
    bench.finish()
    assert bench.late == 0
    assert_same_rows(bench.result, batch_answer(query.node, {"files": rows}))


def test_the_same_files_read_as_one_substream_are_late(tmp_path: Path) -> None:
    """So that the test above is known to be about something."""
    write_files(tmp_path / "in")
    bench = Bench(tens(ps.read.files(str(tmp_path / "in"), time="ts")), tmp_path, {"rows_per_epoch": 12})
    bench.finish()
    assert bench.late > 0


@pytest.mark.parametrize(("max_lead", "most"), [(None, (130, 200)), (30, (30, 70)), (0, (0, 120))])
def test_a_file_that_leads_the_others_too_far_waits_for_them(
    max_lead: int | None, most: tuple[int, int], tmp_path: Path
) -> None:
    """By one row group of 40, or what the lowest gets at once, beyond the bound, and no more."""
    rows = write_files(tmp_path / "in")
    query = tens(ps.read.files(str(tmp_path / "in"), time="ts", substreams="files", split_rows=2))
    bench, leads = Bench(query, tmp_path, {"rows_per_epoch": 6, "max_lead": max_lead}), list[int]()
    while bench.loop.step() is not Outcome.FINISHED:
        marks = [mark.at for mark in bench.loop.manifest.sources[0].marks.values()]
        leads.append(max(marks) - min(marks) if marks else 0)
        bench.restart()  # what is known of leads is not missed
    assert most[0] <= max(leads) <= most[1]
    assert bench.late == 0
    assert_same_rows(bench.result, batch_answer(query.node, {"files": rows}))


def test_a_finished_substream_holds_nobody_back_and_a_new_one_takes_nobody_back(tmp_path: Path) -> None:
    batches = [times(5), times(40), times(60), NOTHING, times(30, 70), NOTHING]
    names = ("short", "long", "long", "other", "new", "other")
    stream = ps.read.batches(batches, time="ts", substreams=names, finishing=True)
    bench = Bench(tens(stream), tmp_path)
    assert bench.step() == [at(5)]  # the only one, and finished
    assert bench.step() == [at(40)]
    assert bench.step() == [at(60)]
    bench.restart()
    assert source_marks(bench.loop.manifest.sources) == [at(60)]
    assert bench.step(2) == [at(70)]
    assert bench.late == 1
    bench.finish()
    assert bench.counts == {0: 1, 40: 1, 60: 1, 70: 1}


@pytest.mark.parametrize("case", range(15))
def test_substreams_that_come_and_go_are_exact_for_what_they_have_not_closed(
    case: int, random: Random, way: Way, tmp_path: Path
) -> None:
    """Each is in order; rows are late by what the stream, and not their own substream, had reached before the epoch."""
    last: dict[str, int] = {}
    batches, names = [], []
    for _ in range(random.randint(1, 12)):
        name = random.choice(["a", "b", "c"])
        moments = sorted(last.get(name, 0) + random.randrange(20) for _ in range(random.randint(1, 4)))
        last[name] = moments[-1]
        batches.append(times(*moments))
        names.append(name)
    marks, reached, open_ = list[int](), MIN_TIME, dict[str, int]()
    for n, (batch, name) in enumerate(zip(batches, names, strict=True)):
        moments = batch["ts"].to_pylist()
        marks += [reached] * len(moments)
        open_[name] = moments[-1]
        still = {other: t for other, t in open_.items() if other in names[n + 1 :]}
        reached, open_ = max(reached, min(still.values(), default=moments[-1])), still
    stream = ps.read.batches(batches, time="ts", substreams=tuple(names), finishing=True)
    query = stream.window(ps.sliding(10, every=4)).agg(n=ps.count())
    bench = Bench(query, tmp_path, way.settings())
    for _ in range(random.randrange(3)):
        bench.step()
        bench.restart()
    bench.finish()
    known = pa.array([None if mark == MIN_TIME else mark for mark in marks], pa.int64())
    answer, late = answer_and_late(query.node, {"batches": pa.concat_tables(batches).append_column(MARK, known)})
    assert bench.late == len(late)
    assert_same_rows(bench.result, answer, str(way))


# -- idle sources ------------------------------------------------------------------------------------------------------


def test_an_idle_substream_is_left_behind_and_its_rows_are_late_when_it_resumes(
    tmp_path: Path, clock: SimulatedClock
) -> None:
    batches = [times(5), times(40), times(50), times(60), times(6, 55, 80), times(90), NOTHING]
    names = ("north", "south", "south", "south", "north", "south", "south")
    bench = Bench(tens(ps.read.batches(batches, time="ts", substreams=names, idle="10s")), tmp_path, clock=clock)
    assert bench.step(2) == [at(5)]
    clock.now = 9.0
    assert bench.step() == [at(5)]  # stalled, not idle
    clock.now = 11.0
    assert bench.step() == [at(50)]  # what the others had said before this epoch
    assert bench.counts == {0: 1, 40: 1}
    clock.now = 12.0
    bench.step()
    assert (source_marks(bench.loop.manifest.sources), bench.late) == ([at(60)], 1)
    assert bench.step() == [at(80)]
    bench.finish()
    assert bench.counts == {0: 1, 40: 1, 50: 2, 60: 1, 80: 1, 90: 1}


def two(first: list[pa.Table], second: list[pa.Table], idle: str | None) -> Stream:
    quiet = ps.read.batches(first, time="ts", name="quiet", idle=idle)
    return tens(quiet.union(ps.read.batches(second, time="ts", name="busy")))


@pytest.mark.parametrize("idle", ["10s", None])
def test_an_idle_source_follows_the_others_if_it_may_be_idle(
    tmp_path: Path, clock: SimulatedClock, idle: str | None
) -> None:
    quiet = [times(5), NOTHING, NOTHING, NOTHING, times(20, 99), NOTHING]
    busy = [times(10), times(30), times(40), times(50), times(60), times(70)]
    bench = Bench(two(quiet, busy, idle), tmp_path, clock=clock)
    bench.step(2)
    clock.now = 9.0
    assert bench.step() == [at(5), at(40)]
    clock.now = 12.0
    assert bench.step() == ([at(40), at(50)] if idle else [at(5), at(50)])
    assert bench.counts == ({0: 1, 10: 1, 30: 1} if idle else {})
    bench.step()
    assert bench.late == (1 if idle else 0)
    bench.finish()
    assert sum(bench.counts.values()) == (8 if idle else 9)


def test_a_source_that_is_slow_to_be_asked_is_not_idle(tmp_path: Path, clock: SimulatedClock) -> None:
    """A long epoch looks like silence to a clock; rows that wait say otherwise."""
    bench = Bench(
        two([times(5), times(6), times(7), NOTHING], [times(50), times(60), times(70), NOTHING], "10s"),
        tmp_path,
        clock=clock,
    )
    for expected in (5, 6, 7):
        clock.now += 100.0
        assert bench.step()[0] == at(expected)
    assert bench.late == 0


class OneLongEpoch:
    """Epochs take a second by the clock, but one takes fifteen; meanwhile files appear."""

    def __init__(self, executor: InlineExecutor, clock: SimulatedClock, appear: Callable[[float], None]) -> None:
        self._executor, self._clock, self._appear = executor, clock, appear

    def run(self, job: EpochJob, routes: Sequence[RouteTask], following: LookAhead = nothing_follows) -> list[Report]:
        reports = self._executor.run(job, routes, following)
        self._clock.now += 15.0 if job.epoch == 7 else 1.0
        self._appear(self._clock.now)
        return reports

    def cancel(self) -> None: ...

    def close(self) -> None: ...


@pytest.mark.parametrize("executor", [InlineExecutor(), ReadingAhead()])
def test_a_source_that_was_asked_long_ago_is_not_idle(
    executor: InlineExecutor, tmp_path: Path, clock: SimulatedClock
) -> None:
    """Where the next epoch is read ahead, its sources were asked before this one, however long it took."""
    folder, written = tmp_path / "in", [0]
    folder.mkdir()

    def appear(now: float) -> None:
        """A file every four seconds, so that there is never silence for ten."""
        while 4 * written[0] <= now:
            pq.write_table(times(written[0]), folder / f"{written[0]:04}.parquet")
            written[0] += 1

    appear(clock.now)
    follow = {"time": "ts", "follow": True, "schema": {"ts": "BIGINT", "kind": "VARCHAR"}, "idle": "10s"}
    backlog = ps.read.batches([times(t) for t in range(0, 400, 10)], time="ts", name="backlog")
    query = tens(backlog.union(ps.read.files(str(folder / "*.parquet"), name="live", **follow)))
    bench = Bench(query, tmp_path, {"rows_per_epoch": 8}, OneLongEpoch(executor, clock, appear), clock)
    bench.step(20)
    assert bench.late == 0


def test_an_idle_source_catches_up_in_an_epoch_without_rows(tmp_path: Path, clock: SimulatedClock) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    follow = {"time": "ts", "follow": True, "schema": {"ts": "BIGINT"}, "idle": "10s"}
    sources = [ps.read.files(str(folder / f"{name}*.parquet"), name=name, **follow) for name in ("a", "b")]
    bench = Bench(tens(sources[0].union(sources[1])), tmp_path, clock=clock)
    pq.write_table(times(5), folder / "a.parquet")
    pq.write_table(times(5, 50), folder / "b0.parquet")
    assert bench.step() == [at(5), at(50)]
    clock.now = 9.0
    pq.write_table(times(60), folder / "b1.parquet")
    assert bench.step() == [at(5), at(60)]
    assert bench.loop.step() is Outcome.IDLE
    clock.now = 11.0
    assert bench.loop.step() is Outcome.WORKED
    assert source_marks(bench.loop.manifest.sources) == [at(60), at(60)]
    assert bench.counts == {0: 2, 50: 1}
    assert bench.loop.step() is Outcome.IDLE


def test_progress_goes_on_after_a_restart(tmp_path: Path, clock: SimulatedClock) -> None:
    """What idle sources were left behind by is committed; that they are idle is found out anew."""
    quiet = [times(5), NOTHING, NOTHING, NOTHING, times(20, 41), NOTHING]
    busy = [times(10), times(40), times(50), times(60), times(70), times(80)]
    bench = Bench(two(quiet, busy, "10s"), tmp_path, clock=clock)
    bench.step(2)
    clock.now = 11.0
    assert bench.step() == [at(40), at(50)]
    bench.restart()
    assert source_marks(bench.loop.manifest.sources) == [at(40), at(50)]
    assert bench.step() == [at(40), at(60)]
    bench.step()
    assert bench.late == 1
    bench.finish()
    assert bench.counts == {0: 1, 10: 1, 40: 2, 50: 1, 60: 1, 70: 1, 80: 1}


def test_sources_whose_times_are_of_different_types_do_not_follow_each_other(
    tmp_path: Path, clock: SimulatedClock
) -> None:
    by_number = ps.read.batches([times(5), NOTHING, NOTHING], time="ts", name="numbers", idle="10s")
    stamped = [pa.table({"at": pa.array([t], pa.timestamp("us"))}) for t in (100, 200, 300)]
    by_time = ps.read.batches(stamped, time="at", name="stamped").window(ps.tumbling("10us")).agg(n=ps.count())
    bench = Bench(tens(by_number).select("n").union(by_time.select("n")), tmp_path, clock=clock)
    clock.now = 99.0
    assert bench.step(2) == [at(5), at(200)]


@pytest.mark.parametrize("idle", ["10s", None])
def test_a_source_that_ends_holds_nobody_back(tmp_path: Path, clock: SimulatedClock, idle: str | None) -> None:
    bench = Bench(two([times(5)], [times(10), times(30), times(50)], idle), tmp_path, clock=clock)
    assert bench.step() == [END, at(10)]
    clock.now = 99.0
    assert bench.step() == [END, at(30)]
    assert bench.counts == {0: 1, 10: 1}
    bench.finish()
    assert (bench.counts, bench.late) == ({0: 1, 10: 1, 30: 1, 50: 1}, 0)
