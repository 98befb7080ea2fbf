"""On a cluster: sites stay where they were, and what moves to another executor is fetched into its cache."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from pyspark import SparkContext

from penstock.spark.choice import executor_on
from penstock.testing.ways import Way
from tests.support.crashes import Place, Scenario, assert_exact, operator_scenario
from tests.support.queries.data import SECOND
from tests.support.queries.operators import operator_queries
from tests.support.schedules import step_with_changes

pytestmark = pytest.mark.spark
DRIVER = Path(__file__).with_name("cached_runs_driver.py")


def test_groups_move_between_executors_and_sites_do_not(random: Random, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    command = [sys.executable, str(DRIVER), str(random.random()), str(tmp_path / "run")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    settled = told["workers"][3:]
    assert len(settled) > 3
    assert all(workers == settled[0] for workers in settled), "a site has changed its executor"
    assert len(set(settled[0])) == 2, "one executor has all sites"
    assert told["fetched"] > 0


@pytest.mark.parametrize("direct", [True, False])
def test_workers_of_one_host_share_a_cache(
    direct: bool, spark: SparkContext, random: Random, place: Place, tmp_path: Path
) -> None:
    """Both processes fetch, write and remove runs in one folder."""
    found = operator_scenario(random, operator_queries(SECOND)["full join"])
    scenario = Scenario(found.stream, {"cache": str(tmp_path / "cache"), "deadline_seconds": 60.0})
    step_with_changes(scenario, place, Way(sites=4), executor_on(spark, direct), random)
    assert_exact(scenario, place)
    assert list((tmp_path / "cache").iterdir()), "nobody has used it"
