"""`penstock bench order`."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from penstock.bench.order import run_order
from penstock.bench.order_experiments import FULL, QUICK
from penstock.bench.order_page import write_report
from penstock.bench.order_report import as_json, as_tables
from penstock.cli.bench import console_of_width
from penstock.cli.errors_shown import FAILED


def run_order_and_report(quick: bool, repeat: int, report: Path | None, json: bool) -> int:
    """The exit code is not 0 where a result is wrong or a bar is missed."""
    tell = partial(print, file=sys.stderr, flush=True)
    compared = run_order(size=QUICK if quick else FULL, repeat=repeat, tell=tell)
    if json:
        print(as_json(compared))
    else:
        console_of_width().print(as_tables(compared))
    if report is not None:
        tell(f"report: {write_report(compared, report)}")
    return 0 if all(comparison.holds for comparison in compared) else FAILED
