"""On Spark: keys that are spread and gathered while workers read ahead change nothing about the answer."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from pyspark import SparkContext

from penstock.events import DirectoryChanged
from penstock.spark.choice import executor_on
from penstock.testing.ways import Way
from tests.support.crashes import Place, assert_exact
from tests.support.queries.data import SECOND
from tests.support.queries.operators import operator_queries
from tests.support.skew import skewed_scenario, step_with_spreading

pytestmark = pytest.mark.spark
QUERIES = operator_queries(SECOND)


def test_any_schedule_gives_the_batch_answer_on_spark(spark: SparkContext, random: Random, tmp_path: Path) -> None:
    """Mostly with workers that stay; some as jobs of Spark, which cost more."""
    for number, name in enumerate(["inner join", "left join", "anti join", "three-way join", "semi join"]):
        direct, place = number % 5 > 0, Place(tmp_path / str(number))
        scenario = skewed_scenario(random, QUERIES[name])
        way = Way(sites=random.choice([2, 3]), items=random.choice([None, 1]), item_rows=3, rows_per_epoch=20)
        told = step_with_spreading(scenario, place, way, executor_on(spark, direct), random)
        changes = [event.what for event in told if isinstance(event, DirectoryChanged)]
        assert_exact(scenario, place, f"{name}, direct: {direct}, {way}\n{changes}\n{scenario.stream.explain()}")
