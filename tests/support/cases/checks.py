"""Checks of cases: the outcome is as expected, is DuckDB's answer, and is the same however the query runs.

outcome = run_case(case, folder)                  with the epochs and splits as written, and default settings
difference(case, outcome)                         how the outcome differs from the file
check_batch_answer(case, outcome)                 DuckDB has the same answer
check_any_way(case, outcome, folder, random)      another way to run it gives the same rows
"""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

import pyarrow as pa

from penstock.errors import PenstockError
from penstock.progress.mark import MIN_TIME
from penstock.testing.rows import assert_same_rows
from penstock.testing.ways import random_way
from tests.support.cases.run import EpochResult, Outcome, input_of, run_case, together
from tests.support.cases.table import table_text
from tests.support.cases.text import Case, CaseError, CaseFile, read_cases, rewrite, sections
from tests.support.late_answer import expected, readable

__all__ = [
    "Case", "CaseError", "CaseFile", "Outcome", "check_any_way", "check_batch_answer", "difference", "expected_text",
    "read_cases", "rewrite", "run_case",
]  # fmt: skip


def difference(case: Case, outcome: Outcome) -> str:
    """Return a diff between the expected sections and the outcome; empty if they are equal."""
    came = expected_text(outcome)
    if came == case.expected:
        return ""
    lines = difflib.unified_diff(
        case.expected.splitlines(), came.splitlines(), "expected", "came out", lineterm="", n=100
    )
    return "\n".join([case.title, *lines, "", "PENSTOCK_REWRITE=1 pytest tests/test_cases.py takes over what came out"])


def expected_text(outcome: Outcome) -> str:
    """Return the outcome as the expected sections of a case."""
    error = "" if outcome.error is None else f"{_kind(outcome.error)}: {outcome.error}"
    rows = "\n".join(f"{_head(e, outcome)}\n{_shown(e.rows)}" for e in outcome.epochs)
    return sections(
        [
            ("plan", outcome.plan),
            ("rows", rows),
            ("late", _diverted(outcome, lambda e: e.late)),
            ("bad", _diverted(outcome, lambda e: e.bad.select(["reason", "text"]))),
            ("error", error),
        ]
    )


def _kind(error: PenstockError) -> str:
    """Return the name of the public error class."""
    return next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == PenstockError.__module__)


def _head(epoch: EpochResult, outcome: Outcome) -> str:
    name = _name(epoch, outcome)
    return name if epoch.mark is None else f"{name}, low-water mark {_mark(epoch.mark, outcome)}"


def _name(epoch: EpochResult, outcome: Outcome) -> str:
    """Return the heading of an epoch: its number, or "end" after the epochs of the input."""
    return f"epoch {epoch.number}" if epoch.number <= outcome.written_epochs else "end"


def _mark(mark: int, outcome: Outcome) -> str:
    """Format a low-water mark."""
    source = outcome.sources[0]
    if mark == MIN_TIME:
        return "none"
    if not pa.types.is_timestamp(source.schema.field(source.time).type):
        return str(mark)
    return (datetime(1970, 1, 1) + timedelta(microseconds=mark)).isoformat(sep=" ")


def _diverted(outcome: Outcome, output: Callable[[EpochResult], pa.Table]) -> str:
    """Return the rows of an output, for the epochs that have any."""
    return "\n".join(
        f"{_name(epoch, outcome)}\n{_shown(output(epoch))}" for epoch in outcome.epochs if output(epoch).num_rows
    )


def _shown(table: pa.Table) -> str:
    return textwrap.indent(table_text(table), "  ")


def check_any_way(case: Case, outcome: Outcome, folder: Path, random: Random) -> None:
    """Run the case in a random way and check that rows, late rows and error are those of `outcome`, in whichever
    epoch."""
    way = random_way(random)
    other = run_case(case, folder, way, random)
    context = f"{case.title}, {way}"
    assert type(other.error) is type(outcome.error), f"{context}: {other.error}"
    assert other.plan == outcome.plan, context
    if outcome.error is None:
        assert_same_rows(other.union(_rows), outcome.union(_rows), context)
        assert_same_rows(other.union(_late), outcome.union(_late), f"{context}, late rows")
        assert other.union(_bad).num_rows == outcome.union(_bad).num_rows, f"{context}, bad rows"


def check_batch_answer(case: Case, outcome: Outcome) -> None:
    """Check that the late rows are those that the progress rule makes late, and that the rows of all epochs are
    DuckDB's answer without what was late."""
    if outcome.error is None and outcome.node is not None:
        want = expected(outcome.node, {source.name: input_of(source) for source in outcome.sources}, outcome.lateness)
        got, late = readable(outcome.union(_late)), together(list(want.late.values()))
        assert_same_rows(got, late.select(got.column_names), f"{case.title}, late rows")
        assert_same_rows(outcome.union(_rows), want.rows, case.title)


def _rows(epoch: EpochResult) -> pa.Table:
    return epoch.rows


def _late(epoch: EpochResult) -> pa.Table:
    return epoch.late


def _bad(epoch: EpochResult) -> pa.Table:
    return epoch.bad
