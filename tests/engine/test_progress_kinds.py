"""Whole queries over sources whose rows tell the progress, epoch by epoch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from epoch_bench import NOTHING, Bench, Rows, table, tens, times

import penstock as ps
from penstock.api.script import read_script
from penstock.api.streams import Stream
from penstock.engine.driver.commit import source_marks
from penstock.progress.mark import BEGIN, MAX_TIME, MIN_TIME, at
from penstock.testing import Way, assert_same_rows
from penstock.testing.oracle import answer_and_late
from penstock.testing.oracle.relation import MARK


def marked(*batches: Rows, keep: bool = False) -> Stream:
    rule = ps.punctuated(ps.col("kind") == "mark", keep=keep)
    return ps.read.batches([table(rows) for rows in batches], time="ts", progress=rule)


def test_windows_close_when_a_row_says_so_and_not_before(tmp_path: Path) -> None:
    bench = Bench(tens(marked([(5, "row"), (99, "row")], [(7, "row"), (20, "mark")], [(25, "row")])), tmp_path)
    assert bench.step() == [BEGIN]
    assert bench.counts == {}
    assert bench.step() == [at(20)]
    assert bench.counts == {0: 2}
    bench.finish()
    assert bench.counts == {0: 2, 20: 1, 90: 1}
    assert bench.late == 0


def test_punctuation_that_is_kept_is_data(tmp_path: Path) -> None:
    bench = Bench(tens(marked([(5, "row"), (20, "mark")], [(3, "mark"), (21, "row")], keep=True)), tmp_path)
    assert bench.step() == [at(20)]
    bench.finish()
    assert bench.counts == {0: 1, 20: 2}
    assert bench.late == 1


def test_punctuation_out_of_order_and_late_changes_nothing(tmp_path: Path) -> None:
    bench = Bench(tens(marked([(30, "mark"), (15, "row"), (10, "mark")], [(5, "mark"), (40, "row")], [])), tmp_path)
    assert bench.step(2) == [at(30)]
    bench.finish()
    assert (bench.counts, bench.late) == ({10: 1, 40: 1}, 0)


def test_the_limits_of_the_type_close_everything_or_nothing(tmp_path: Path) -> None:
    bench = Bench(
        tens(marked([(5, "row"), (MIN_TIME, "mark")], [(77, "row"), (MAX_TIME, "mark")], [(8, "row")])), tmp_path
    )
    assert bench.step() == [BEGIN]
    assert bench.counts == {}
    assert bench.step() == [at(MAX_TIME)]
    assert bench.counts == {0: 1, 70: 1}
    bench.finish()
    assert bench.late == 1


def test_columns_that_only_the_punctuation_needs_are_no_columns_of_the_result(tmp_path: Path) -> None:
    bench = Bench(marked([(5, "row"), (20, "mark")]).select("ts"), tmp_path)
    bench.finish()
    assert bench.result.to_pylist() == [{"ts": 5}]


@pytest.mark.parametrize("case", range(10))
def test_any_punctuation_is_exact_for_what_it_has_not_closed(
    case: int, random: Random, way: Way, tmp_path: Path
) -> None:
    keep, said = random.random() < 0.5, None
    batches: list[Rows] = []
    rows: list[tuple[int, str, int | None]] = []
    for _ in range(random.randint(1, 6)):
        batch = [(random.randrange(100), random.choice(["row", "row", "mark"])) for _ in range(random.randrange(12))]
        rows += [(t, k, said) for t, k in batch if keep or k == "row"]
        said = max((t for t in (said, *(t for t, k in batch if k == "mark")) if t is not None), default=None)
        batches.append(batch)
    query = marked(*batches, keep=keep).group_by("kind").window(ps.sliding(20, every=7)).agg(n=ps.count())
    bench = Bench(query, tmp_path, way.settings())
    bench.finish()
    judged = table([(t, k) for t, k, _ in rows]).append_column(MARK, pa.array([m for *_, m in rows], pa.int64()))
    answer, late = answer_and_late(query.node, {"batches": judged})
    assert_same_rows(bench.result, answer, str(way))
    assert bench.late == len(late)


SPANS: dict[str, Callable[[Stream, Stream], Stream]] = {
    "sessions": lambda a, b: a.group_by("kind").window(ps.session(3)).agg(n=ps.count()),
    "windows": lambda a, b: a.group_by("kind").window(ps.sliding(10, every=3)).agg(n=ps.count()),
    "moments": lambda a, b: a.group_by("kind").at("ts").agg(n=ps.count()),
    "distinct": lambda a, b: a.distinct(),
    "top": lambda a, b: tens(a).top(1, ps.desc("n")),
    "union": lambda a, b: tens(a.union(b)),
    "inner": lambda a, b: a.join(b, on="kind", within=4),
    "full": lambda a, b: a.join(b, on="kind", within=0, kind="full"),
    "anti": lambda a, b: a.join(b, on="kind", within=0, kind="anti"),
    "theta": lambda a, b: a.theta_join(b, ps.col("ts") < ps.col("right_ts"), within=4),
    "join of windows": lambda a, b: tens(a.join(b, on="kind", within=4)),
    "in order": lambda a, b: tens(a.in_order()),
}


@pytest.mark.parametrize("operator", SPANS)
def test_every_operator_can_be_told_of_the_largest_time(operator: str, tmp_path: Path) -> None:
    """Its answer is the one that the end of the stream gives, and the stream has not ended."""
    rule = ps.punctuated(ps.col("kind") == "mark")

    def source(name: str, shift: int, *more: pa.Table) -> Stream:
        rows = [times(5 + shift, 7), times(12 - shift, 26)]
        return ps.read.batches([*rows, *more], time="ts", progress=rule, name=name)

    more = [table([(MAX_TIME, "mark")]), times(6, 30), NOTHING]
    told = Bench(SPANS[operator](source("a", 0, *more), source("b", 1, *more)), tmp_path / "told")
    told.step(3)
    assert set(source_marks(told.loop.manifest.sources)) == {at(MAX_TIME)}
    ended = Bench(SPANS[operator](source("a", 0), source("b", 1)), tmp_path / "ended")
    ended.finish()
    assert ended.result.num_rows
    assert_same_rows(told.result, ended.result)
    told.finish()
    assert_same_rows(told.result, ended.result)
    assert told.late == 2 * len(told.loop.query.sources)


def test_all_of_it_in_sql(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name, first in (("a", 0), ("b", 1_000)):
        lines = [f"{t},{'mark' if t % 10 == 0 else 'row'}\n" for t in range(first, first + 40)]
        (tmp_path / "in" / f"{name}.csv").write_text("ts,kind\n" + "".join(lines))
    script = read_script(f"""
        CREATE SOURCE s (ts BIGINT, kind VARCHAR, WATERMARK FOR ts BY PUNCTUATION WHERE kind = 'mark')
        WITH (connector = 'files', path = '{tmp_path / "in"}', substreams = 'files', idle = '10 seconds');
        CREATE SINK out WITH (connector = 'files', path = '{tmp_path / "out"}') AS
        SELECT window_start, count(*) AS n FROM TUMBLE(s, ts, 20) GROUP BY window_start;""")
    ready = script.queries[0].ready
    run = ready.start(str(tmp_path / "ck"), master="inline", epoch="1ms", rows_per_epoch=10).wait()
    assert pq.read_table(tmp_path / "out").sort_by("window_start").to_pydict() == {
        "window_start": [0, 20, 1_000, 1_020],
        "n": [18] * 4,
    }
    assert run.progress.late_rows == 0


# -- known failures elsewhere ------------------------------------------------------------------------------------------


def test_c6_a_branch_that_gives_no_rows_does_not_stop_or_rush_a_union(tmp_path: Path) -> None:
    stream = ps.read.batches([times(5), times(25), times(45)], time="ts")
    nothing = stream.where(ps.lit(False))
    bench = Bench(tens(stream.union(nothing)), tmp_path)
    bench.step(2)
    assert bench.counts == {0: 1}
    bench.finish()
    assert (bench.counts, bench.late) == ({0: 1, 20: 1, 40: 1}, 0)


def test_c7_a_mark_is_committed_with_the_epoch_that_made_it(tmp_path: Path) -> None:
    bench = Bench(tens(marked([(5, "row")], [(20, "mark")], [(8, "row"), (28, "row")])), tmp_path)
    assert bench.step(2) == [at(20)]
    bench.restart()
    assert source_marks(bench.loop.manifest.sources) == [at(20)]
    bench.finish()
    assert (bench.counts, bench.late) == ({0: 1, 20: 1}, 1)
