"""Reading one split: rows that are on time go on, late and bad rows are put aside and staged.

Rows that are punctuation and nothing else end here: what they say is in `seen`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.checkpoint.manifest import Staged
from penstock.engine.deliver import writer_for
from penstock.engine.job import EpochJob, RouteTask, route_producer
from penstock.errors import BadRowError
from penstock.operators.scalar import keep
from penstock.plan.program import ROW_NUMBER
from penstock.progress.rules import Punctuated, Seen
from penstock.schema import time_values
from penstock.sources.bad_rows import as_text, bad_table
from penstock.sources.base import BAD_ROWS_SCHEMA

Mask = npt.NDArray[np.bool_]
Times = npt.NDArray[np.int64]

_PLACE = "#place"  # the column by which rows are found again behind a filter


class SplitReading:
    """Invariant: every row of the split is in exactly one of: what `on_time` gave, `late`, `bad`, and the rows that are
    only punctuation. `numbered` counts the well-formed ones among them: the numbers that the split used."""

    def __init__(self, job: EpochJob, task: RouteTask) -> None:
        self._job, self._task = job, task
        self._input = job.program.inputs[task.input]
        self._producer = route_producer(task.ordinal)
        self._bad = writer_for(job, "bad", self._producer, BAD_ROWS_SCHEMA)
        self._late_masks: list[Mask] = []
        self._late_rows: list[pa.Table] = []
        self._seen = Seen(task.split.substream, task.ordinal, None, None)
        self.rows = self.late = self.bad = self.numbered = 0

    @property
    def seen(self) -> Seen:
        return self._seen

    def on_time(self) -> Iterator[pa.Table]:
        for result in self._task.split.read(self._input.columns):
            self.rows += result.rows.num_rows
            if result.bad is not None:
                self.rows += result.bad.num_rows
                self._set_aside_bad(result.bad)
            yield self._data_on_time(result.rows)

    def _data_on_time(self, rows: pa.Table) -> pa.Table:
        times = time_values(rows.column(self._input.time))
        if self._all_on_time(times):
            self._late_masks.append(np.zeros(len(times), np.bool_))
            return self._with_numbers(rows, np.ones(len(times), np.bool_))
        marking = self._marking(rows)
        data = ~marking if self._takes_out_punctuation else np.ones(len(times), np.bool_)
        good = self._within_range(rows, times, data)
        self._observe(times[good], times[good & marking])
        late = good & data & (times < self._task.late_below.at)
        self._set_aside_late(rows, late)
        return _where(self._with_numbers(rows, good), good & data & ~late)

    def _all_on_time(self, times: Times) -> bool:
        """Mostly every row is, and two numbers tell: then no row has to be looked at. Takes note of the times seen."""
        if not len(times) or isinstance(self._input.progress, Punctuated):
            return False
        least, largest = int(times.min()), int(times.max())
        earliest, latest = self._job.program.time_range
        if least < max(earliest, self._task.late_below.at) or largest > latest:
            return False
        self._note(largest, int(times[-1]), None)
        return True

    @property
    def _takes_out_punctuation(self) -> bool:
        rule = self._input.progress
        return isinstance(rule, Punctuated) and not rule.keep

    def _marking(self, rows: pa.Table) -> Mask:
        """Which rows are punctuation."""
        found = np.zeros(rows.num_rows, np.bool_)
        rule = self._input.progress
        if isinstance(rule, Punctuated) and rows.num_rows:
            placed = rows.append_column(_PLACE, pa.array(np.arange(rows.num_rows)))
            found[keep(placed, rule.predicate).column(_PLACE).to_numpy()] = True
        return found

    def _within_range(self, rows: pa.Table, times: Times, data: Mask) -> Mask:
        """The rows whose windows can be written as times; the others are bad. What is only punctuation has none."""
        earliest, latest = self._job.program.time_range
        outside = data & ((times < earliest) | (times > latest))
        if outside.any():
            reason = f"`{self._input.time}`: the time is too near the limits of its type for the windows of this query"
            self._set_aside_bad(_described(rows.filter(pa.array(outside)), self._task.split.where, reason))
        return ~outside

    def _observe(self, times: Times, punctuation: Times) -> None:
        if len(times):
            said = int(punctuation.max()) if len(punctuation) else None
            self._note(int(times.max()), int(times[-1]), said)

    def _note(self, largest: int, last: int, punctuation: int | None) -> None:
        before = self._seen
        self._seen = Seen(
            before.substream,
            before.ordinal,
            _larger(largest, before.largest),
            last,
            _larger(punctuation, before.punctuation),
        )

    def _set_aside_bad(self, bad: pa.Table) -> None:
        if not self._job.divert_bad_rows:
            raise _stop_at(bad)
        self.bad += bad.num_rows
        self._bad.write(bad)

    def _set_aside_late(self, rows: pa.Table, late: Mask) -> None:
        self._late_masks.append(late)
        if late.any():
            self.late += int(late.sum())
            self._late_rows.append(rows.filter(pa.array(late)))

    def _with_numbers(self, rows: pa.Table, good: Mask) -> pa.Table:
        """The rows with their places among the well-formed ones of the split."""
        first = self.numbered
        self.numbered += int(good.sum())
        if not self._input.numbered:
            return rows
        return rows.append_column(ROW_NUMBER, pa.array(first - 1 + np.cumsum(good, dtype=np.int64)))

    def stage_diverted(self) -> tuple[Staged, ...]:
        """Write what was put aside; call it when `on_time` is exhausted."""
        late = self._job.late_outputs[self._task.input]
        writer = writer_for(self._job, late, self._producer, self._input.schema)
        if self.late:
            writer.write(self._whole_late_rows())
        return tuple(s for s in (self._bad.finish("bad"), writer.finish(late)) if s)

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


def _larger(one: int | None, other: int | None) -> int | None:
    return max((at for at in (one, other) if at is not None), default=None)


def _where(rows: pa.Table, mask: Mask) -> pa.Table:
    return rows if mask.all() else rows.filter(pa.array(mask))


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
