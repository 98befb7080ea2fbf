"""Late rows of an input, computed row by row from the definition of the rule and not by the engine's code.

A row is late if its time is below the mark of its stream before the epoch. The mark of a substream is the latest time
seen minus the slack or, if rows are ordered, the time of its last row; in both cases minus the allowed lateness. The
mark of the stream is the minimum over its substreams, and never goes back.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from penstock.plan.logical import Source
from penstock.progress.mark import Slack
from penstock.testing.oracle.relation import MARK, ROW
from penstock.types import time_values
from tests.support.cases.input import Epochs, Part


def judged(epochs: Epochs, source: Source) -> pa.Table:
    """Return all rows that have a time, numbered in order of arrival, each with the mark of its stream before its
    epoch."""
    reached: dict[str, int] = {}
    parts, arrived, mark = [_numbered(source.schema.empty_table(), 0, None)], 0, None
    for epoch in epochs:
        mark = max((m for m in (mark, min(reached.values(), default=None)) if m is not None), default=None)
        for part in epoch:
            rows = part.rows.filter(pc.is_valid(part.rows.column(source.time)))
            parts.append(_numbered(rows, arrived, mark))
            arrived += rows.num_rows
        reached |= _reached(reached, epoch, source)
    return pa.concat_tables(parts)


def divided(epochs: Epochs, source: Source) -> tuple[pa.Table, pa.Table]:
    """Return the rows that are on time, numbered in order of arrival, and the late ones. Rows without a time are in
    neither."""
    rows = judged(epochs, source)
    times, marks = _times(rows, source), rows.column(MARK).to_pylist()
    behind = pa.array([mark is not None and time < mark for time, mark in zip(times, marks, strict=True)], pa.bool_())
    return rows.filter(pc.invert(behind)).drop_columns(MARK), rows.filter(behind).drop_columns([ROW, MARK])


def _numbered(rows: pa.Table, first: int, mark: int | None) -> pa.Table:
    rows = rows.append_column(ROW, pa.array(range(first, first + rows.num_rows), pa.int64()))
    return rows.append_column(MARK, pa.array([mark] * rows.num_rows, pa.int64()))


def _reached(before: dict[str, int], epoch: Iterable[Part], source: Source) -> dict[str, int]:
    """Return the marks of the substreams of an epoch after it."""
    shown: dict[str, list[int]] = {}
    for part in epoch:
        shown.setdefault(part.substream, []).extend(_times(part.rows, source))
    after = {name: _bound(times, source) for name, times in shown.items() if times}
    return {name: max(bound, before.get(name, bound)) for name, bound in after.items()}


def _bound(times: list[int], source: Source) -> int:
    rule = source.progress
    return (max(times) - rule.span if isinstance(rule, Slack) else times[-1]) - rule.allowed


def _times(rows: pa.Table, source: Source) -> list[int]:
    times: list[int] = time_values(rows.column(source.time).drop_null()).tolist()
    return times
