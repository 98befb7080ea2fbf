"""Reading one split: rows that are on time go on, late and bad rows are put aside and staged."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.checkpoint.manifest import Staged
from penstock.engine.deliver import writer_for
from penstock.engine.job import EpochJob, RouteTask, route_producer
from penstock.errors import BadRowError
from penstock.progress.rules import Seen
from penstock.schema import time_values
from penstock.sources.bad_rows import as_text, bad_table
from penstock.sources.base import BAD_ROWS_SCHEMA

Mask = npt.NDArray[np.bool_]


class SplitReading:
    """Invariant: every row of the split is in exactly one of: what `on_time` gave, `late`, `bad`."""

    def __init__(self, job: EpochJob, task: RouteTask) -> None:
        self._job, self._task = job, task
        self._input = job.program.inputs[task.input]
        self._producer = route_producer(task.ordinal)
        self._bad = writer_for(job, "bad", self._producer, BAD_ROWS_SCHEMA)
        self._late_masks: list[Mask] = []
        self._late_rows: list[pa.Table] = []
        self._largest: int | None = None
        self._last = 0
        self.rows = self.late = self.bad = 0

    @property
    def seen(self) -> Seen | None:
        if self._largest is None:
            return None
        return Seen(self._task.split.substream, self._task.ordinal, self._largest, self._last)

    def on_time(self) -> Iterator[pa.Table]:
        for result in self._task.split.read(self._input.columns):
            self.rows += result.rows.num_rows
            if result.bad is not None:
                self.rows += result.bad.num_rows
                self._set_aside_bad(result.bad)
            yield self._without_late(self._within_range(result.rows))

    def _within_range(self, rows: pa.Table) -> pa.Table:
        """The rows whose windows can be written as times; the others are bad."""
        earliest, latest = self._job.program.time_range
        times = time_values(rows.column(self._input.time))
        if not len(times) or (earliest <= times.min() and times.max() <= latest):
            return rows
        outside = (times < earliest) | (times > latest)
        reason = f"`{self._input.time}`: the time is too near the limits of its type for the windows of this query"
        self._set_aside_bad(_described(rows.filter(pa.array(outside)), self._task.split.where, reason))
        return rows.filter(pa.array(~outside))

    def _set_aside_bad(self, bad: pa.Table) -> None:
        if not self._job.divert_bad_rows:
            raise _stop_at(bad)
        self.bad += bad.num_rows
        self._bad.write(bad)

    def _without_late(self, rows: pa.Table) -> pa.Table:
        if not rows.num_rows:
            return rows
        times = time_values(rows.column(self._input.time))
        self._last = int(times[-1])
        self._largest = max(int(times.max()), self._largest if self._largest is not None else self._last)
        late = times < self._task.late_below.at
        self._late_masks.append(late)
        if not late.any():
            return rows
        self.late += int(late.sum())
        self._late_rows.append(rows.filter(pa.array(late)))
        return rows.filter(pa.array(~late))

    def stage_diverted(self) -> tuple[Staged, ...]:
        """Write what was put aside; call it when `on_time` is exhausted."""
        writer = writer_for(self._job, "late", self._producer, self._input.schema)
        if self.late:
            writer.write(self._whole_late_rows())
        return tuple(s for s in (self._bad.finish("bad"), writer.finish("late")) if s)

    def _whole_late_rows(self) -> pa.Table:
        """The late rows with all columns of the source: the split is read again, since the query reads only some."""
        mask = np.concatenate(self._late_masks)
        whole = pa.concat_tables([r.rows for r in self._task.split.read(tuple(self._input.schema.names))])
        if whole.num_rows == len(mask):
            return whole.filter(pa.array(mask))
        # A column that the query does not read is malformed in some rows: keep what was read, the rest is null.
        narrow = pa.concat_tables(self._late_rows)
        columns = [
            narrow.column(f.name) if f.name in narrow.column_names else pa.nulls(narrow.num_rows, f.type)
            for f in self._input.schema
        ]
        return pa.table(columns, schema=self._input.schema)


def _described(rows: pa.Table, where: str, reason: str) -> pa.Table:
    """Rows of a split as bad rows, for a reason they share."""
    reasons = pa.repeat(pa.scalar(reason), rows.num_rows)
    return bad_table(where, pa.nulls(rows.num_rows, pa.int64()), reasons, as_text(rows))


def _stop_at(bad: pa.Table) -> BadRowError:
    first = bad.slice(0, 1).to_pylist()[0]
    place = first["file"] + (f", line {first['line']}" if first["line"] is not None else "")
    return BadRowError(
        f"malformed row in {place}",
        detail=f"{first['reason']}\n          {(first['text'] or '')[:200]}",
        hint="correct the row, or send such rows to a folder of their own with on_bad_row = 'divert'",
    )
