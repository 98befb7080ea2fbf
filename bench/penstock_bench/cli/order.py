"""`penstock bench order`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from penstock.cli.errors_shown import FAILED
from penstock_bench.cli.gather import gathered
from penstock_bench.cli.workloads import console_of_width
from penstock_bench.order.comparison import Comparison, measured_points
from penstock_bench.order.experiments import FULL, QUICK
from penstock_bench.order.page import write_report
from penstock_bench.order.report import as_lines, as_tables


def run_order_and_report(quick: bool, repeat: int, report: Path | None, json: bool) -> int:
    """Compare in order with out of order; the exit code is not 0 where a result is wrong or a bar is missed."""
    tell = partial(print, file=sys.stderr, flush=True)
    points = measured_points(size=QUICK if quick else FULL, repeat=repeat, tell=tell)
    compared, interrupted = gathered(points, as_lines if json else None, partial(_write_report, report))
    if not json:
        console_of_width().print(as_tables(compared))
    if report is not None:
        tell(f"report: {report}")
    return interrupted or (0 if all(comparison.holds for comparison in compared) else FAILED)


def _write_report(folder: Path | None, compared: Sequence[Comparison]) -> None:
    if folder is not None:
        write_report(compared, folder)
