"""Rounds of chaos: `PYTHONPATH=. python tests/spark/chaos_moves.py --rounds 10 --seed 1`.

In each a query of its own runs on Spark, is scaled from 2 to 5, 3, 1 and 8 sites, and its groups are moved about, while
its driver is killed at random moments and started again; every third time on a cluster whose executors are killed too.
After each death every group is in one place, and at the end the published rows are the batch answer. Ends with 1 at the
first round that fails.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from random import Random

from moving_case import Chaos, moving
from moving_driver import Orders

SCALES = (5, 3, 1, 8)
WAYS = (("local[2]", "direct"), ("local[2]", "spark"), ("local-cluster[2,1,1024]", "spark"))
MOST_DEATHS = 5


def one_round(seed: str, number: int, root: Path) -> str:
    random = Random(f"{seed} {number}")
    master, exchange = WAYS[number % len(WAYS)]
    orders = Orders(f"{seed} {number}", str(root), master, exchange, random.choice([None, 1]))
    with moving(orders, random) as case:
        chaos = Chaos(case, random, MOST_DEATHS)
        chaos.run(SCALES)
        return f"{master}, {exchange}: {chaos.deaths} deaths; {'; '.join(case.story)}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Queries that are moved about while they are killed, on Spark.")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--round", type=int, help="only this one")
    asked = parser.parse_args(arguments)
    for number in range(asked.rounds) if asked.round is None else [asked.round]:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="penstock-chaos-", ignore_cleanup_errors=True) as folder:
            try:
                told = one_round(asked.seed, number, Path(folder) / "run")
            except Exception:
                print(f"seed {asked.seed}, round {number} failed\n{traceback.format_exc()}", flush=True)
                return 1
        print(f"round {number}, {time.monotonic() - began:.0f} s, {told}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
