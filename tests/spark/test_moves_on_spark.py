"""On Spark: groups that move while workers read ahead, and sites that come and go, change nothing about the answer."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from pyspark import SparkContext

from penstock.events import DirectoryChanged
from penstock.spark.choice import executor_on
from penstock.testing.ways import Way
from tests.support.crashes import Place, assert_exact, operator_scenario, random_scenario
from tests.support.queries.data import SECOND
from tests.support.queries.operators import operator_queries
from tests.support.schedules import step_with_changes

pytestmark = pytest.mark.spark
QUERIES = operator_queries(SECOND)


def test_any_schedule_gives_the_batch_answer_on_spark(spark: SparkContext, random: Random, tmp_path: Path) -> None:
    """Mostly with workers that stay; some as jobs of Spark, which cost more."""
    for number in range(20):
        direct, place = number % 5 > 0, Place(tmp_path / str(number))
        name = random.choice(sorted(QUERIES))
        scenario = operator_scenario(random, QUERIES[name]) if number % 2 else random_scenario(random, batches=6)
        way = Way(
            sites=random.choice([1, 2, 3]), items=random.choice([None, 1]), rows_per_epoch=random.choice([20, 50])
        )
        told = step_with_changes(scenario, place, way, executor_on(spark, direct), random)
        changes = [event.what for event in told if isinstance(event, DirectoryChanged)]
        assert_exact(scenario, place, f"direct: {direct}, {way}\n{changes}\n{scenario.stream.explain()}")
