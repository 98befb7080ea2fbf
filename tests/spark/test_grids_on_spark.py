"""On Spark: a theta join that is scaled while it runs gets another grid, and its rows come through the host's cache."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from pyspark import SparkContext

import penstock as ps
from penstock.api.streams import Stream
from penstock.engine.driver.loop import Outcome
from penstock.spark.choice import executor_on
from penstock.testing.ways import Way
from tests.support.crashes import Place, Scenario, assert_exact
from tests.support.looping import looping

pytestmark = pytest.mark.spark
GRIDS = {  # for each number of sites
    "theta join": {2: (1, 2), 5: (2, 3), 1: (1, 1), 4: (2, 2)},
    "theta join over rows": {2: (1, 2), 5: (1, 5), 1: (1, 1), 4: (1, 4)},
}


def source(name: str, random: Random) -> Stream:
    """Twelve epochs of 20 rows, of which those of some epochs are joined with each other."""
    tables = [
        pa.table(
            {"ts": [10 * n + random.randrange(10) for _ in range(20)], name: [random.randrange(30) for _ in range(20)]}
        )
        for n in range(12)
    ]
    return ps.read.batches(tables, time="ts", progress=ps.slack(10), name=name)


def joined(name: str, random: Random) -> Stream:
    a, b, condition = source("a", random), source("b", random), ps.col("a") % 3 <= ps.col("b") % 5
    return a.theta_join(b, condition, last_rows=(9, 12)) if "rows" in name else a.theta_join(b, condition, within=25)


@pytest.mark.parametrize(
    ("name", "direct"),
    [("theta join", True), ("theta join over rows", False)],
    ids=["workers that stay", "jobs of Spark, over rows"],
)
def test_the_grid_follows_on_spark_and_through_the_cache(
    name: str, direct: bool, spark: SparkContext, random: Random, place: Place, tmp_path: Path
) -> None:
    scenario = Scenario(joined(name, random), {"cache": str(tmp_path / "cache"), "deadline_seconds": 60.0})
    wanted = dict(GRIDS[name])
    with looping(scenario, place, Way(sites=2), executor_on(spark, direct)) as (loop, _):
        while loop.step() is not Outcome.FINISHED:
            sites = loop.directories[0].sites
            if loop.manifest.subqueries[0].directory.grid == wanted.get(sites):
                del wanted[sites]
                loop.scale([0], next(iter(wanted), sites))
    assert not wanted
    assert_exact(scenario, place)
    assert list((tmp_path / "cache").iterdir()), "nobody has used it"
