"""On Spark: a disk that is full ends the run with an error that names the folder, and the same command goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from pyspark import SparkContext

from penstock.errors import DiskFullError
from penstock.events import DiskFull, Event
from penstock.spark.failures import task_failed
from penstock.testing.ways import Way
from tests.support.crashes import Place, Scenario, finish, launch, random_scenario
from tests.support.damage.tries import assert_answer

pytestmark = pytest.mark.spark
FEW_SITES = Way(sites=2, rows_per_epoch=1)


@pytest.fixture
def scenario(random: Random) -> Scenario:
    return random_scenario(random, batches=5)


@pytest.fixture
def full_disk(spark: SparkContext, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Workers find the disk full at the second run that they write."""
    spark.environment.update(PENSTOCK_FAULT="run.torn@2:full", PENSTOCK_FAULT_ONCE=str(tmp_path / "fired"))
    yield spark.environment
    for name in ("PENSTOCK_FAULT", "PENSTOCK_FAULT_ONCE"):
        spark.environment.pop(name, None)


def _on_spark(exchange: str) -> dict[str, object]:
    return {"master": "local[2,4]", "exchange": exchange}


@pytest.mark.parametrize("exchange", ["direct", "spark"])
def test_a_disk_that_is_full_for_a_worker_ends_the_run_with_the_folder(
    exchange: str, full_disk: dict[str, str], scenario: Scenario, place: Place
) -> None:
    with pytest.raises(DiskFullError, match="no room left in") as caught:
        launch(scenario, place, FEW_SITES, **_on_spark(exchange)).wait()
    assert str(place.checkpoint / "runs") in caught.value.what
    assert "bytes" in caught.value.detail
    finish(scenario, place, FEW_SITES, **_on_spark(exchange))
    assert_answer(scenario, place)


def test_a_run_on_spark_may_wait_for_room(full_disk: dict[str, str], scenario: Scenario, place: Place) -> None:
    told: list[Event] = []
    run = launch(scenario, place, FEW_SITES, on_full="wait", on_event=told.append, **_on_spark("direct")).wait()
    assert run.progress.state == "finished"
    assert any(isinstance(event, DiskFull) for event in told)
    assert_answer(scenario, place)


def test_a_full_folder_of_shuffles_is_told_from_other_failures(tmp_path: Path) -> None:
    java = "Job aborted\n\tat org.apache\njava.io.IOException: No space left on device\n\tat sun.nio"
    for folder, named in ((tmp_path, str(tmp_path)), (None, "a folder of a task")):
        error = task_failed(3, java, folder)
        assert isinstance(error, DiskFullError)
        assert error.what == f"there is no room left in {named}"
        assert "java.io.IOException: No space left on device" in error.detail
        assert "spark.local.dir" in error.detail
        assert ("bytes are free" in error.detail) == (folder is not None)
    assert not isinstance(task_failed(3, "java.io.IOException: broken"), DiskFullError)
