"""A plain local master, where Spark gives a job up when one task has failed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

import penstock

pytestmark = pytest.mark.spark
DRIVER = Path(__file__).with_name("lost_worker_driver.py")


FAULTS = [
    ("direct", "site.cleaned@1:kill"),
    ("direct", "site.worked@2:kill"),
    ("direct", "site.done@2:kill"),  # after state is written
    ("spark", "site.done@2:kill"),
]


@pytest.mark.parametrize(("exchange", "fault"), FAULTS)
def test_an_epoch_that_loses_a_worker_is_run_again_and_its_files_are_private(
    exchange: str, fault: str, random: Random, tmp_path: Path
) -> None:
    (tmp_path / "tmp").mkdir()
    here = str(Path(penstock.__file__).parent.parent)
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp"), "PYTHONPATH": here, "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, str(DRIVER), str(random.random()), str(tmp_path / "run"), exchange, fault]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Traceback" not in done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["killed"], "no worker was killed"
    assert told["readable"] == []
    died, dropped = told["events"]
    assert (died["event"], dropped["event"]) == ("WorkerDied", "EpochDropped")
    assert died["worker"] in ((0, 1) if exchange == "direct" else (None,))
    assert died["reason"] == dropped["reason"]
    assert dropped["attempt"] == 1
    for event, line in zip(told["events"], told["lines"], strict=True):
        assert event.items() <= line.items(), "the line has the fields of its event"
        assert line["query"] == "ck"
    assert not list((tmp_path / "tmp").iterdir()), "scratch files stay behind"
