"""On Spark: tasks that die and are tried again, lost shuffle files and mixed attempts change nothing in the answer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pyspark
import pytest
from pyspark import SparkContext

from penstock.engine.wire.job import route_producer, site_producer
from penstock.errors import PenstockError
from penstock.events import EpochDropped
from penstock.spark.jobs.executor import SparkExecutor
from penstock.storage.faults import FaultPoint
from penstock.testing.ways import Way
from tests.support.crashes import (
    Fault,
    Place,
    Scenario,
    another_way,
    assert_exact,
    finish,
    launch,
    operator_scenario,
    random_scenario,
    run_until_death,
)
from tests.support.looping import step_to_end
from tests.support.mixing import MixingExecutor
from tests.support.queries.data import SECOND
from tests.support.queries.operators import operator_queries

pytestmark = pytest.mark.spark
DRIVER = Path(__file__).with_name("lost_files_driver.py")
FEW_SITES = Way(sites=2)


@pytest.fixture
def scenario(random: Random) -> Scenario:
    return random_scenario(random, batches=6)


@pytest.fixture
def worker_faults(spark: SparkContext, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of Python workers: Spark starts new ones whenever it has changed."""
    yield spark.environment
    for name in ("PENSTOCK_FAULT", "PENSTOCK_FAULT_ONCE"):
        spark.environment.pop(name, None)


def _on_spark(exchange: str = "direct") -> dict[str, object]:
    return {"master": "local[2,4]", "exchange": exchange}


@pytest.mark.parametrize("case", range(4))
def test_the_answer_is_the_batch_answer(
    case: int, spark: SparkContext, random: Random, scenario: Scenario, place: Place
) -> None:
    way = Way(
        sites=random.choice([1, 3]), items=random.choice([None, 5]), item_rows=20, hash_bits=random.choice([64, 8])
    )
    finish(scenario, place, way, **_on_spark(("direct", "spark")[case % 2]))
    assert_exact(scenario, place, f"{way}\n{scenario.stream.explain()}")


@pytest.mark.parametrize(("point", "exchange"), [("route.diverted", "direct"), ("run.torn", "spark")])
def test_a_worker_killed_in_the_middle_of_an_epoch(
    point: str, exchange: str, worker_faults: dict[str, str], scenario: Scenario, place: Place
) -> None:
    marker = place.root / "fired"
    worker_faults.update(PENSTOCK_FAULT=f"{point}@2:kill", PENSTOCK_FAULT_ONCE=str(marker))
    finish(scenario, place, FEW_SITES, **_on_spark(exchange))
    assert marker.exists(), "no worker was killed"
    assert_exact(scenario, place)


@pytest.mark.parametrize(
    ("point", "query", "exchange"),
    [("site.worked", "full join with a condition", "spark"), ("run.torn", "left join", "direct")],
)
def test_a_worker_killed_in_the_middle_of_an_epoch_of_a_join(
    point: str, query: str, exchange: str, worker_faults: dict[str, str], random: Random, place: Place
) -> None:
    scenario = operator_scenario(random, operator_queries(SECOND)[query])
    marker = place.root / "fired"
    worker_faults.update(PENSTOCK_FAULT=f"{point}@2:kill", PENSTOCK_FAULT_ONCE=str(marker))
    finish(scenario, place, FEW_SITES, **_on_spark(exchange))
    assert marker.exists(), "no worker was killed"
    assert_exact(scenario, place, scenario.stream.explain())


def test_workers_that_die_every_time_end_the_run_and_hurt_nothing(
    worker_faults: dict[str, str], scenario: Scenario, place: Place
) -> None:
    worker_faults.update(PENSTOCK_FAULT="site.worked@1:kill")
    with pytest.raises(PenstockError, match="failed repeatedly") as caught:
        launch(scenario, place, FEW_SITES, **_on_spark()).wait()
    assert "checkpoint is intact" in caught.value.hint
    worker_faults.pop("PENSTOCK_FAULT")
    finish(scenario, place, FEW_SITES, **_on_spark())
    assert_exact(scenario, place)


def test_a_driver_that_dies_and_a_commit_whose_answer_is_lost(
    spark: SparkContext, random: Random, scenario: Scenario, place: Place
) -> None:
    way = FEW_SITES
    assert run_until_death(scenario, place, way, Fault(FaultPoint.JOB_DONE, 3), **_on_spark()) == "epochs"
    assert not run_until_death(
        scenario, place, Way(sites=3), Fault(FaultPoint.MANIFEST_LINKED, 2, "error"), **_on_spark()
    )
    finish(scenario, place, another_way(random, way))  # the rest of it, if any, without Spark
    assert_exact(scenario, place)


@pytest.mark.parametrize("producer", [route_producer(0), site_producer(0, 1)])
def test_mixed_attempts_are_seen_and_the_epoch_is_run_again(
    producer: str, spark: SparkContext, random: Random, place: Place
) -> None:
    scenario = random_scenario(random, batches=3, levels=2)
    executor = MixingExecutor(SparkExecutor(spark), 2, lambda report: report.producer == producer)
    told = step_to_end(scenario, place, FEW_SITES, executor)
    assert [event.epoch for event in told if isinstance(event, EpochDropped)] == [1, 1]
    assert_exact(scenario, place)


def _spark_home(folder: Path) -> Path:
    """The files of Spark under another home, so that its workers write there and not into the installation."""
    folder.mkdir(parents=True)
    for entry in Path(pyspark.__file__).parent.iterdir():
        (folder / entry.name).symlink_to(entry)
    return folder


def _lose_shuffle_files(speculation: bool, random: Random, root: Path) -> list[str]:
    """Runs a query on a cluster that loses shuffle files; the driver checks its rows. Gives why epochs were dropped."""
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(_spark_home(root / "home"))}
    command = [sys.executable, str(DRIVER), str(random.random()), str(root / "run"), str(int(speculation))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["deleted"] > 0, "no shuffle file was lost"
    dropped: list[str] = told["dropped"]
    return dropped


def test_shuffle_files_lost_on_a_cluster_make_spark_mix_attempts_which_is_seen(random: Random, tmp_path: Path) -> None:
    # Whether two consumers read different attempts is a matter of timing, and most of the time they do.
    assert any(_lose_shuffle_files(False, random, tmp_path / str(attempt)) for attempt in range(5))


@pytest.mark.slow
def test_shuffle_files_lost_on_a_cluster_with_speculation(random: Random, tmp_path: Path) -> None:
    _lose_shuffle_files(True, random, tmp_path)
