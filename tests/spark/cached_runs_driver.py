"""A driver on a cluster of two executors with run caches of their own, where groups move; run by
`test_cached_runs_on_spark`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random

from penstock.balance.decisions import Move
from penstock.engine.driver.loop import EpochLoop, Outcome
from penstock.events import EpochTimed
from penstock.spark.jobs.executor import SparkExecutor
from penstock.spark.session import spark_context
from penstock.testing.ways import Way
from tests.support.crashes import Place, Scenario, assert_exact, operator_scenario
from tests.support.looping import looping
from tests.support.queries.data import SECOND
from tests.support.queries.operators import operator_queries

MASTER = "local-cluster[2,1,1024]"
SITES = 4
UNMOVED = 4  # epochs; in the first ones executors may still be coming


def main(seed: str, root: Path) -> None:
    root.mkdir()
    context = spark_context(MASTER)
    executor, place = SparkExecutor(context), Place(root)
    found = operator_scenario(Random(seed), operator_queries(SECOND)["inner join"], batches=12)
    scenario = Scenario(found.stream, {"cache": "executor", "deadline_seconds": 60.0})
    with looping(scenario, place, Way(sites=SITES, groups_per_site=4), executor) as (loop, told):
        for _ in range(UNMOVED):
            loop.step()
        while loop.step() is not Outcome.FINISHED:
            everything_moves(loop)
    executor.close()
    assert_exact(scenario, place)
    timed = [event for event in told if isinstance(event, EpochTimed)]
    print(json.dumps({"workers": [workers(event) for event in timed], "fetched": fetched(timed)}))
    context.stop()


def everything_moves(loop: EpochLoop) -> None:
    directory = loop.directories[0]
    for group, home in zip(directory.groups, directory.homes, strict=True):
        loop.change(0, Move(group, home, (home + 1) % SITES))


def workers(event: EpochTimed) -> list[str]:
    """Where each site was."""
    sites = sorted((task for task in event.tasks if task.kind == "site"), key=lambda task: task.name)
    return [task.worker for task in sites]


def fetched(timed: list[EpochTimed]) -> int:
    return sum(task.fetched for event in timed for task in event.tasks)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
