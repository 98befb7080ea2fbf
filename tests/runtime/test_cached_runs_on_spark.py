"""On a cluster: sites stay where they were, and what moves to another executor is fetched into its cache."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

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
