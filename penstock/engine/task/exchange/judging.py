"""Judging rows behind the punctuation of their source, once, before they are pre-aggregated: which are late for what.

A row that is late as a whole is late whatever the steps of a branch make of it. Where windows close one by one, the
steps come first: what they drop is missed by no window, and of the copies of a row some may still be in time.
"""

from __future__ import annotations

import pyarrow as pa

from penstock.engine.task.exchange.late_rows import LateFor
from penstock.engine.task.exchange.steps import run_steps
from penstock.expr.tree import Column, Named
from penstock.operators.window.lateness import RowCloses, missed, told
from penstock.plan.program import PLACE, Branch, Compute, Step
from penstock.progress.mark import BEGIN, Mark


def judged(behind: pa.Table, branch: Branch, late_below: Mark) -> tuple[pa.Table | None, LateFor]:
    """What the target of a branch takes of rows behind the punctuation (None: nothing), and what it has missed."""
    if isinstance(branch.closing, RowCloses):
        return None, LateFor(branch.target, behind.column(PLACE).to_numpy())
    rows, mark = run_steps(behind, tuple(map(_with_place, branch.steps))), branch.tracks[0].mark((late_below, BEGIN))
    found = missed(branch.closing, rows, mark)
    some, places = found.windows > 0, rows.column(PLACE).to_numpy()
    first, last = (None if borders is None else borders[some] for borders in (found.first, found.last))
    rows = told(branch.closing, rows.drop_columns(PLACE), found, mark)
    return rows.filter(pa.array(~found.late)), LateFor(branch.target, places[some], first, last)


def _with_place(step: Step) -> Step:
    """The same step, which passes places on."""
    return Compute((*step.columns, Named(PLACE, Column(PLACE)))) if isinstance(step, Compute) else step
