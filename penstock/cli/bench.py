"""`penstock bench`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from penstock.bench.report import as_json, as_table
from penstock.bench.runner import DEFAULT_ROWS, run_bench
from penstock.bench.systems import SYSTEMS
from penstock.bench.workloads import WORKLOADS
from penstock.cli.errors_shown import FAILED


def run_and_report(
    names: Sequence[str], systems: Sequence[str], rows: int | None, repeat: int, work: Path, json: bool
) -> int:
    """The exit code is not 0 where a system gave a wrong answer."""
    measured = run_bench(
        list(names) or list(WORKLOADS),
        list(systems) or list(SYSTEMS),
        rows or DEFAULT_ROWS,
        repeat,
        work,
        tell=partial(print, file=sys.stderr, flush=True),
    )
    if json:
        print(as_json(measured))
    else:
        Console().print(as_table(measured))
    return 0 if all(one.equal for one in measured) else FAILED
