"""A trial whose query has SQL becomes a case that is read, run, and has the batch answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

import penstock as ps
from penstock.connectors.memory import MemoryConnector, MemorySplit
from penstock.expr.tree import Call, Column
from penstock.plan.logical import JOINS
from penstock.progress.mark import Punctuated
from penstock.testing import cut
from penstock.testing.oracle import batch_answer
from penstock.testing.rows import assert_same_rows
from penstock.testing.source_rows import connector_of, sources_of, tables_of
from penstock.testing.ways import Way
from tests.support.cases.checks import read_cases, run_case
from tests.support.cases.input import read_input
from tests.support.cases.run import EpochResult, Outcome
from tests.support.queries.data import SECOND, rows_from
from tests.support.trials.sql.case import case_of
from tests.support.trials.sql.select import sql_of
from tests.support.trials.sql.words import NoSql
from tests.support.trials.text import trial_text
from tests.support.trials.trial import Trial, random_trial

TRIALS = 40
DIFFERENCE = "1 row, expected 2\n=== not a title\n--- not a section"


def outcome(trial: Trial, folder: Path) -> Outcome:
    path = folder / "trial.case"
    path.write_text(trial_text(trial, "a title", DIFFERENCE), encoding="utf-8")
    (case,) = read_cases(path).cases
    assert case.title == "a title"
    return run_case(case, folder / "checkpoint")


def check(trial: Trial, folder: Path) -> None:
    found = outcome(trial, folder)
    assert found.error is None, f"{found.error}\n{trial_text(trial, '', '')}"
    want = batch_answer(trial.node, tables_of(trial.node))
    assert_same_rows(found.union(rows_of), want, trial_text(trial, "", ""))
    assert found.union(late_of).num_rows == 0


def rows_of(epoch: EpochResult) -> pa.Table:
    return epoch.rows


def late_of(epoch: EpochResult) -> pa.Table:
    return epoch.late


def has_case(trial: Trial) -> bool:
    try:
        return bool(case_of(trial))
    except NoSql:
        return False


def test_most_trials_are_cases_that_give_the_batch_answer(tmp_path: Path) -> None:
    trials = [random_trial(Random(f"a case {n}"), most_rows=6) for n in range(TRIALS)]
    cases = [trial for trial in trials if has_case(trial)]
    assert len(cases) >= TRIALS // 2
    for n, trial in enumerate(cases):
        (tmp_path / str(n)).mkdir()
        check(trial, tmp_path / str(n))


def test_any_other_trial(tmp_path: Path, random: Random) -> None:
    for n in range(8):
        trial = random_trial(random, most_rows=30)
        if has_case(trial):
            (tmp_path / str(n)).mkdir()
            check(trial, tmp_path / str(n))


def a_stream(name: str, is_bigint: bool = False) -> ps.Stream:
    random = Random(f"rows of {name}")
    keys = pa.array([random.choice([0, 1, 2, None]) for _ in range(60)])
    rows = rows_from(random, 60, 0, SECOND).set_column(1, "k", keys)
    if is_bigint:
        rows = rows.set_column(0, "ts", rows.column("ts").cast(pa.int64()))
    connector = MemoryConnector(tuple(cut(random, rows)), splits_per_batch=2)
    return ps.read.source(connector, time="ts", progress=ps.slack(SECOND if is_bigint else "1s"), name=name)


A, B, C = (a_stream(name) for name in "abc")
NUMBERS = a_stream("numbers", is_bigint=True)
MINUTES = A.group_by("k").window(ps.sliding("20s", every="5s", offset="7s")).agg(n=ps.count(), m=ps.avg("i"))

QUERIES: dict[str, Callable[[], ps.Stream]] = {
    "WHERE i > 0": lambda: A.where(ps.col("i") > 0),
    "ELSE 2 END = 1": lambda: A.split(ps.col("i") > 0, ps.col("k") == 1)[1],
    "i * 3 AS d": lambda: A.select("ts", d=ps.col("i") * 3),
    "UNION ALL": lambda: A.union(B, A),
    "SELECT * FROM HOP(a, ts, INTERVAL '3 seconds', INTERVAL '7 seconds', INTERVAL '1 second')": (
        lambda: A.windowed(ps.sliding("7s", every="3s", offset="1s"))
    ),
    "HOP(numbers, ts, 10000000, 10000000, 0)": lambda: (
        NUMBERS.group_by().window(ps.tumbling(10 * SECOND)).agg(n=ps.count(), kinds=ps.count_distinct("k"))
    ),
    "GROUP BY k, window_start, window_end": lambda: MINUTES,
    "window_start AS input_window_start": lambda: (
        MINUTES.group_by(at=ps.col("window_start"))
        .window(ps.tumbling("30s", time="window_end"))
        .agg(first=ps.first("window_end"), kinds=ps.count_distinct("k"))
    ),
    "SESSION(a, ts, INTERVAL '2 seconds')": lambda: A.group_by("k").window(ps.session("2s")).agg(n=ps.last("s")),
    "a [ROWS 7 SLIDE 3]": lambda: A.group_by("k").window(ps.rows(7, every=3)).agg(n=ps.sum("i")),
    "GROUP BY k, ts": lambda: A.group_by("k").at("ts").agg(n=ps.count()),
    "SELECT DISTINCT *": lambda: A.select("ts", "k").distinct(),
    "ORDER BY f DESC NULLS LAST, i ASC NULLS FIRST) AS place": lambda: A.top(
        2, [ps.desc("f"), ps.asc("i", nulls_first=True)], keys=["k"], per="ts", number="place"
    ),
    "PARTITION BY k ORDER BY ts ASC NULLS LAST) <= 1": lambda: A.top(1, [], keys=["k"], per=None),
    "[ROWS 3]": lambda: A.theta_join(B, ps.col("i") < ps.col("right_i"), last_rows=(3, 2)),
    "right_ts BETWEEN ts - INTERVAL '1 second' AND ts + INTERVAL '4 seconds'": (
        lambda: A.theta_join(B, ps.col("i") < ps.col("right_i"), within=("1s", "4s"))
    ),
    "BETWEEN ts + INTERVAL '1 second' AND": lambda: A.join(B, "k", within=("-1s", "4s")),
    "right_ts BETWEEN ts - 5000000 AND ts": lambda: NUMBERS.join(NUMBERS, "k", within=(5 * SECOND, 0)),
    "CAST(i AS BIGINT)": lambda: A.join(B, [("i", "k")], within="5s"),
    "FROM a, (": lambda: ps.join_all([A, B, C], "k", within="5s"),
}
QUERIES |= {f"{kind.upper()} JOIN": lambda kind=kind: A.join(  # type: ignore[misc]
    B, "k", within="2s", kind=kind, where=ps.col("i") < ps.col("right_i")
) for kind in JOINS if kind != "inner"}  # fmt: skip


@pytest.mark.parametrize("phrase", QUERIES)
def test_every_operator_that_has_sql(phrase: str, tmp_path: Path) -> None:
    trial = Trial(QUERIES[phrase]().node, (Way(),))
    assert phrase in (sql_of(trial.node) or "")
    assert batch_answer(trial.node, tables_of(trial.node)).num_rows > 0
    check(trial, tmp_path)


WITHOUT_SQL: dict[str, Callable[[], ps.Stream]] = {
    "MapBatches": lambda: A.map_batches(lambda rows: rows, A.schema, time="ts", name="same"),
    "InOrder": lambda: A.in_order().where(ps.col("i") > 0),
    "a join without bounds on time": lambda: A.join(B, "k", within=None),
}


@pytest.mark.parametrize("what", WITHOUT_SQL)
def test_a_trial_without_sql_says_so(what: str) -> None:
    trial = Trial(WITHOUT_SQL[what]().node, (Way(),))
    assert sql_of(trial.node) is None
    written = trial_text(trial, "a title", "1 row")
    assert written.startswith(f"=== a title\nThis cannot be run as a case: there is no SQL for {what}\n\n--- query\n")


def test_a_query_that_sql_refuses_says_why() -> None:
    trial = Trial(A.join(B, "k", within=("2s", "-3s")).node, (Way(),))
    assert "cannot be run as a case: SQL refuses the query: no times of `a`" in trial_text(trial, "", "")


def test_the_settings_are_those_of_the_last_way() -> None:
    ways = Way(sites=3), Way(sites=7, items=2, rows_per_epoch=1, hash_bits=8)
    query = case_of(Trial(A.node, ways, order="in", grid="1x3")).query
    settings = [line for line in query.splitlines() if line.startswith("SET ")]
    assert settings == [
        f"SET {s};" for s in ("sites = 7", "items = 2", "hash_bits = 8", "order = 'in'", "grid = '1x3'")
    ]


def splits_of(connector: MemoryConnector, schema: pa.Schema) -> list[list[tuple[str, pa.Table]]]:
    """What each epoch of the trial reads where it takes one batch at a time."""
    reader = MemoryConnector(
        connector.batches, connector.splits_per_batch, one_batch_per_offer=True, substreams=connector.substreams
    ).open(schema, "ts")
    offers = [reader.offer({"batches": n}, 1).splits for n in range(len(connector.batches))]
    splits = [[split for split in offer if isinstance(split, MemorySplit)] for offer in offers]
    return [[(split.substream, split.table) for split in offer] for offer in splits]


def test_the_input_has_the_very_rows_in_the_same_splits() -> None:
    rows = rows_from(Random(5), 200, -3, 1)
    odd = pa.table({**{n: rows.column(n) for n in ("ts", "f")}, "s": pa.array(["|", "it's|", "null", " split "] * 50)})
    batches = [odd.slice(0, 0), *cut(Random(1), odd)]
    for substreams in [(), tuple(f"s{n % 2}" for n in range(len(batches)))]:
        connector = MemoryConnector(tuple(batches), splits_per_batch=3, substreams=substreams)
        source = sources_of(ps.read.source(connector, time="ts", progress=ps.slack("1s"), name="a").node)["a"]
        written = case_of(Trial(source, (Way(),))).inputs["a"]
        found = [[(part.substream, part.rows) for part in epoch] for epoch in read_input(written, source.schema)]
        wanted = splits_of(connector_of(source), source.schema)
        assert [[t.num_rows for _, t in epoch] for epoch in found] == [[t.num_rows for _, t in e] for e in wanted]
        assert repr([[t.to_pylist() for _, t in e] for e in found]) == repr(
            [[t.to_pylist() for _, t in e] for e in wanted]
        )
        names = [[name if substreams else "memory" for name, _ in epoch] for epoch in wanted]
        assert [[name if substreams else "memory" for name, _ in epoch] for epoch in found] == names


def test_what_a_case_cannot_hold_is_no_case() -> None:
    broken = ps.read.batches([pa.table({"ts": [1], "s": ["a\nb"]})], time="ts", name="a")
    spaced = ps.read.batches([pa.table({"ts": [1], "a b": [2]})], time="ts", name="a")
    constant = A.where(ps.col("s") == "a\nb")
    assert not any(has_case(Trial(stream.node, (Way(),))) for stream in (broken, spaced, constant))


def test_a_source_by_punctuation_has_no_sql() -> None:
    source = sources_of(A.node)["a"]
    assert sql_of(replace(source, progress=Punctuated(Call("is_null", (Column("i"),))))) is None
    assert sql_of(source) == "SELECT * FROM a"
