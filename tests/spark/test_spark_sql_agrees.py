"""A second oracle: Spark SQL in batch, over the same rows, agrees with what Penstock published and with DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from spark_oracle import NotInSpark, batch_session, frames_of, spark_answer

import penstock as ps
from penstock.testing import Way, assert_same_rows, batch_answer, cut, disordered
from penstock.testing.source_rows import tables_of
from tests.support.queries.data import SECOND, random_rows
from tests.support.trials.text import trial_text
from tests.support.trials.trial import Trial, difference, random_trial

pytestmark = pytest.mark.spark
SAMPLE, DEEPEST, MOST_ROWS = 25, 3, 60


@pytest.mark.parametrize(("size", "slide"), [("10 seconds", "10 seconds"), ("30 seconds", "5 seconds")])
def test_spark_sql_in_batch_gives_the_same_rows(
    size: str, slide: str, spark: SparkContext, random: Random, way: Way, tmp_path: Path
) -> None:
    session = SparkSession(spark)
    session.conf.set("spark.sql.session.timeZone", "UTC")
    rows = disordered(random, random_rows(random).filter(pa.compute.field("i").is_valid()), SECOND)
    stream = ps.read.batches(cut(random, rows), time="ts", progress=ps.slack("1s"))
    window = ps.sliding(size, every=slide)
    query = (
        stream.group_by("k", "s")
        .window(window)
        .agg(
            n=ps.count(),
            total=ps.sum("i"),
            least=ps.min("i"),
            most=ps.max("s"),
            kinds=ps.count_distinct("i"),
            spread=ps.stddev("i"),
        )
    )
    run = query.to.memory().start(str(tmp_path / "ck"), **way.settings()).wait(120)
    pq.write_table(rows, tmp_path / "rows.parquet")
    frame = session.read.parquet(str(tmp_path / "rows.parquet"))
    batch = frame.groupBy("k", "s", F.window("ts", size, slide)).agg(
        F.count("*").alias("n"),
        F.sum("i").alias("total"),
        F.min("i").alias("least"),
        F.max("s").alias("most"),
        F.countDistinct("i").alias("kinds"),
        F.stddev("i").alias("spread"),
    )
    want = batch.select(
        "k", "s", F.col("window.start").alias("window_start"), "n", "total", "least", "most", "kinds", "spread"
    )
    assert_same_rows(run.result(), _as_arrow(want.toArrow(), run.result().schema), str(way))


def _as_arrow(table: pa.Table, schema: pa.Schema) -> pa.Table:
    return pa.table([table.column(f.name).cast(f.type) for f in schema], schema=schema)


def test_random_queries_of_all_operators(spark: SparkContext, random: Random) -> None:
    session = batch_session(SparkSession(spark))
    for number, (trial, by_spark) in enumerate(islice(_answers(session, random), SAMPLE)):
        by_duckdb = batch_answer(trial.node, tables_of(trial.node))
        context = trial_text(trial, f"query {number}", "Spark and DuckDB give different rows")
        assert_same_rows(by_spark, by_duckdb, context)
        assert not (told := difference(trial)), trial_text(trial, f"query {number}", told)


def _answers(session: SparkSession, random: Random) -> Iterator[tuple[Trial, pa.Table]]:
    """Random queries with Spark's answers; those that Spark cannot say are left out."""
    while True:
        trial = random_trial(random, random.randint(1, DEEPEST), MOST_ROWS)
        try:
            yield trial, spark_answer(trial.node, frames_of(session, trial.node, tables_of(trial.node)))
        except NotInSpark:
            continue
