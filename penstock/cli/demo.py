"""`penstock demo`: run a live query over generated call records on embedded Spark, show it and write it to files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console

import penstock as ps
from penstock.api.script import read_script
from penstock.cli.demo_query import WINDOW_SECONDS, demo_script, new_folder, threshold
from penstock.cli.demo_results import Results
from penstock.cli.demo_screen import demo_screen
from penstock.cli.running import Ended, run_jobs
from penstock.cli.summary import summary_lines
from penstock.cli.target import Job
from penstock.settings import INLINE

_EPOCH = "1s"
_CATCH_UP = 3  # an epoch may read this many seconds of rows, to catch up after a slow moment


def run_demo(seconds: int, rate: int, sites: int, master: str) -> int:
    """Run the demo and return the exit code: 0, or that of Ctrl-C."""
    folder = new_folder()
    _introduce(rate, folder)
    with _waiting("starting Spark, which takes some seconds" if master != INLINE else "starting"):
        _warm_up(master, sites)
    script = folder / "suspicious.sql"
    script.write_text(demo_script(folder, rate))
    read = read_script(script.read_text(), str(script))
    query = read.queries[0]
    checkpoint = folder / "checkpoint"
    job = Job(query.name, query.ready, checkpoint)
    options = {**read.settings, "sites": sites, "master": master, "epoch": _EPOCH, "until": f"{seconds}s"}
    screen = demo_screen(Results(folder / "results"), threshold(rate), seconds, checkpoint)
    ended, code = run_jobs([job], {**options, "rows_per_epoch": rate * _CATCH_UP}, screen)
    _conclude(ended[0], script, sites, master)
    return code


def _introduce(rate: int, folder: Path) -> None:
    print(f"{rate:,} call records a second, up to 2 s out of order: who makes suspiciously many calls within")
    print(f"{WINDOW_SECONDS} s? About 1 % of the rows are late on purpose: their window is closed when they arrive.")
    print(f"The query, its results and its checkpoint are in {folder}.", flush=True)


@contextmanager
def _waiting(text: str) -> Iterator[None]:
    """Show the reason for the delay while the block runs."""
    if sys.stdout.isatty():
        with Console().status(text):
            yield
    else:
        print(text, flush=True)
        yield


def _warm_up(master: str, sites: int) -> None:
    """Run a query of a few rows. The first job of a Spark session is slow, and rows in real time would queue up behind
    it."""
    calls = ps.read.calls(rows=2000, split_rows=1000)
    grouped = calls.group_by("caller").window(ps.sliding("10s", every="2s"))
    query = grouped.agg(n=ps.count(), callees=ps.count_distinct("callee"), mean=ps.avg("duration"))
    with TemporaryDirectory(prefix="penstock-") as checkpoint:
        query.to.memory().start(checkpoint, master=master, sites=sites).wait()


def _conclude(ended: Ended, script: Path, sites: int, master: str) -> None:
    print(*summary_lines(ended, master), sep="\n")
    print(f"\nNext: continue from here, with {sites * 2} sites instead of {sites}:")
    print(f"  penstock run {script} \\")
    print(f"    --checkpoint {script.parent / 'checkpoint'} --sites {sites * 2} --until 30s")
