"""A driver on a cluster of two executors that loses its shuffle files in mid-job; run by `test_faults_on_spark`.

The task of site 0 deletes them once it has done its own work: the sites that are still to come cannot read what it
read, Spark runs the producers again, and what the epoch then holds is of two attempts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from penstock.engine.wire.job import EpochJob
from penstock.events import EpochDropped
from penstock.spark.jobs import executor
from penstock.spark.session import spark_context
from penstock.testing.ways import Way
from tests.support.crashes import Place, assert_exact, random_scenario
from tests.support.looping import step_to_end

MASTER = "local-cluster[2,1,1024]"
EAGER = {"multiplier": "1.01", "quantile": "0.1", "interval": "10ms", "minTaskRuntime": "1ms"}
run_partition = executor._run_partition


class LoseFiles:
    """Does what a task does, and deletes all shuffle files after site 0 of the first epoch."""

    def __init__(self, local: str, marker: str) -> None:
        self._local, self._marker = local, marker

    def __call__(
        self, job: EpochJob, folder: str | None, level: int, partition: int, inbox: Iterable[Any]
    ) -> Iterator[Any]:
        yield from run_partition(job, folder, level, partition, inbox)
        if partition == 0 and level == 0 and not Path(self._marker).exists():
            files = [p for p in Path(self._local).rglob("shuffle_*") if p.suffix in (".data", ".index")]
            for file in files:
                file.unlink(missing_ok=True)
            Path(self._marker).write_text(str(len(files)))


def main(seed: str, root: Path, speculation: bool) -> None:
    root.mkdir()
    options = {"spark.local.dir": str(root / "local"), "spark.speculation": str(speculation).lower()}
    if speculation:  # at the least excuse
        options |= {f"spark.speculation.{name}": value for name, value in EAGER.items()}
    context = spark_context(MASTER, options=options)
    executor._run_partition = LoseFiles(str(root / "local"), str(root / "lost"))  # type: ignore[assignment]
    scenario, place = random_scenario(Random(seed), batches=3, levels=1), Place(root)
    told = step_to_end(scenario, place, Way(sites=5), executor.SparkExecutor(context))
    assert_exact(scenario, place)
    dropped = [event.reason for event in told if isinstance(event, EpochDropped)]
    print(json.dumps({"deleted": int((root / "lost").read_text()), "dropped": dropped}))
    context.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3] == "1")
