"""Measures two checkouts of Penstock against each other, by turns: `python tools/turns.py BEFORE [--turns 21]`.

    git worktree add --detach ../before v0.1.0
    python tools/turns.py ../before

Both run the same queries over the same files, each in a process that stays, on one Spark session of its own. A machine
that is slow for a while is slow for both, so the ratio of two neighbours says more than two medians.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).parents[1]
WORKLOADS = ["tumble", "slide", "band", "three-way", "tumble:10000", "band:10000"]
ROWS, EPOCHS = 4_000_000, 60

# Reads one request a line: a script, a folder, options. Answers with the seconds, the rows and the epochs.
_CHILD = """
import json, shutil, sys, time
from penstock.api.script import read_script
for line in sys.stdin:
    script, folder, options = json.loads(line)
    (query,) = read_script(script, "turns").queries
    began = time.perf_counter()
    run = query.ready.start(folder + "/checkpoint", sites=2, master="local[2]", progress=False, **options).wait()
    seconds = time.perf_counter() - began
    shutil.rmtree(folder)
    print(json.dumps([seconds, run.progress.rows_out, run.progress.epochs]), flush=True)
"""


class Checkout:
    """A process that runs queries with the code of one checkout and the libraries of this environment."""

    def __init__(self, root: Path, scratch: Path) -> None:
        path = os.pathsep.join([str(root), str(root / "bench")])
        environment = os.environ | {"PYTHONPATH": path, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        command = [sys.executable, "-c", _CHILD]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, cwd=root, env=environment, text=True, stdin=pipe, stdout=pipe)
        self._scratch, self._runs = scratch, 0

    def run(self, workload: str) -> tuple[float, int, int]:
        """Run a workload once; return its seconds, rows and epochs."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._runs += 1
        folder = self._scratch / str(self._runs)
        name, _, rows = workload.partition(":")
        options = {"rows_per_epoch": int(rows), "until": f"{EPOCHS} epochs"} if rows else {}
        print(json.dumps([script(name, folder), str(folder), options]), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"the process of {self._scratch.name} has ended; its message is above")
        seconds, made, epochs = json.loads(answer)
        return seconds, made, epochs


def script(name: str, folder: Path) -> str:
    """Return the script of a workload; makes its input on first use."""
    from penstock_bench.rows.data import ensure_data
    from penstock_bench.systems.penstock import script_text
    from penstock_bench.workloads import workload_named

    workload = workload_named(name)
    data = ensure_data((HERE / "bench-work" / f"data-{ROWS}").absolute(), ROWS, workload.streams)
    return script_text(workload, data, folder / "rows")


def compare(workload: str, before: Checkout, after: Checkout, turns: int) -> str:
    """Return a line with the medians of both, and the median and quartiles of the ratios of neighbours."""
    warm = [checkout.run(workload)[1] for checkout in (before, after)]
    if warm[0] != warm[1]:
        raise SystemExit(f"{workload}: {warm[0]:,} rows before, {warm[1]:,} after")
    pairs = []
    for turn in range(turns):
        order = (before, after) if turn % 2 == 0 else (after, before)
        seconds = {checkout: checkout.run(workload)[0] for checkout in order}
        pairs.append((seconds[before], seconds[after]))
    old, new = (statistics.median(side) for side in zip(*pairs, strict=True))
    low, middle, high = statistics.quantiles([b / a for a, b in pairs], n=4)
    return f"{workload:14} {old:7.3f} s {new:7.3f} s   ratio {middle:.3f}  ({low:.3f} to {high:.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("--after", type=Path, default=HERE)
    parser.add_argument("--turns", type=int, default=21)
    parser.add_argument("workloads", nargs="*", default=WORKLOADS, help="name, or name:rows for short epochs")
    given = parser.parse_intermixed_args()
    with TemporaryDirectory() as folder:
        roots = (given.before.absolute(), given.after.absolute())
        before, after = (Checkout(root, Path(folder) / side) for root, side in zip(roots, "ba", strict=True))
        print(f"{'':14}  before     after   after / before, median of {given.turns} turns (quartiles)")
        for workload in given.workloads:
            print(compare(workload, before, after, given.turns), flush=True)


if __name__ == "__main__":
    main()
