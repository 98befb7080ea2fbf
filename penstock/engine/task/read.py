"""Read one split: separate rows on time from rows behind the punctuation, and stage bad rows.

Rows that are only punctuation are not passed on; their times are in `seen`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.checkpoint.manifest import Staged
from penstock.connectors.bad_rows import as_text, bad_table
from penstock.connectors.source import BAD_ROWS_SCHEMA
from penstock.engine.task.exchange.deliver import writer_for
from penstock.engine.wire.job import EpochJob, RouteTask, route_producer
from penstock.errors import BadRowError
from penstock.expr.evaluate.scalar import keep
from penstock.kernels.arrays import Times
from penstock.plan.program import PLACE, ROW_NUMBER
from penstock.progress.rules import Punctuated, Seen
from penstock.types import time_values

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Taken:
    """Rows of a split: those on time, and those `behind` the punctuation of earlier epochs, with their places in the
    split in the column PLACE (None: there are none)."""

    on_time: pa.Table
    behind: pa.Table | None = None


class SplitReading:
    """Reads a split and counts its rows.

    Invariant: every row of the split is in exactly one of: the two tables that `taken` yields, `bad`, and the rows that
    are only punctuation. `numbered` counts the well-formed rows, which use up one row number each; `places` counts all
    rows that were parsed.
    """

    def __init__(self, job: EpochJob, task: RouteTask) -> None:
        self._job, self._task = job, task
        self._input = job.program.inputs[task.input]
        self._producer = route_producer(task.ordinal)
        self._bad = writer_for(job, "bad", self._producer, BAD_ROWS_SCHEMA)
        self._seen = Seen(task.split.substream, task.ordinal, None, None)
        self.rows = self.bad = self.numbered = self.places = 0

    @property
    def seen(self) -> Seen:
        """Return the punctuation of the split, from the rows read so far."""
        return self._seen

    def taken(self) -> Iterator[Taken]:
        """Yield the rows of the split, table by table; bad rows are staged or raise an error."""
        for result in self._task.split.read(self._input.columns):
            self.rows += result.rows.num_rows
            if result.bad is not None:
                self.rows += result.bad.num_rows
                self._set_aside_bad(result.bad)
            yield self._data(result.rows)
            self.places += result.rows.num_rows

    def _data(self, rows: pa.Table) -> Taken:
        """Separate the rows of a table; record their times and count them."""
        times = time_values(rows.column(self._input.time))
        if self._all_on_time(times):
            return Taken(self._with_numbers(rows, None))
        marking = self._marking(rows)
        data = ~marking if self._takes_out_punctuation else np.ones(len(times), np.bool_)
        good = self._within_range(rows, times, data)
        self._observe(times[good], times[good & marking])
        behind = good & data & (times < self._task.late_below.at)
        numbered = self._with_numbers(rows, good)
        on_time = _where(numbered, good & data & ~behind)
        return Taken(on_time, self._placed(numbered, behind) if behind.any() else None)

    def _placed(self, rows: pa.Table, some: Mask) -> pa.Table:
        """Return the selected rows with their places in the split."""
        return rows.filter(pa.array(some)).append_column(PLACE, pa.array(self.places + np.flatnonzero(some)))

    def _all_on_time(self, times: Times) -> bool:
        """Return whether all rows are in range and on time, and if so, record their times. This is the common case, and
        checking the least and the largest time avoids work per row."""
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
        """Return a mask of the rows that are punctuation."""
        found = np.zeros(rows.num_rows, np.bool_)
        rule = self._input.progress
        if isinstance(rule, Punctuated) and rows.num_rows:
            placed = rows.append_column(PLACE, pa.array(np.arange(rows.num_rows)))
            found[keep(placed, rule.predicate).column(PLACE).to_numpy()] = True
        return found

    def _within_range(self, rows: pa.Table, times: Times, data: Mask) -> Mask:
        """Return a mask of the rows whose windows have representable times; the other data rows are bad. Rows that are
        only punctuation have no windows."""
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
        """Stage bad rows, or raise an error if the query does not divert them."""
        if not self._job.divert_bad_rows:
            raise _stop_at(bad)
        self.bad += bad.num_rows
        self._bad.write(bad)

    def _with_numbers(self, rows: pa.Table, good: Mask | None) -> pa.Table:
        """Append the rows' numbers among the well-formed rows of the split (`good` is None: all rows are) if the input
        needs them."""
        first = self.numbered
        self.numbered += rows.num_rows if good is None else int(good.sum())
        if not self._input.numbered:
            return rows
        well_formed = np.ones(rows.num_rows, np.bool_) if good is None else good
        return rows.append_column(ROW_NUMBER, pa.array(first - 1 + np.cumsum(well_formed, dtype=np.int64)))

    def stage_bad(self) -> tuple[Staged, ...]:
        """Finish the file of bad rows and return it; call it when `taken` is exhausted."""
        staged = self._bad.finish("bad")
        return (staged,) if staged else ()


def _larger(one: int | None, other: int | None) -> int | None:
    return max((at for at in (one, other) if at is not None), default=None)


def _where(rows: pa.Table, mask: Mask) -> pa.Table:
    return rows if mask.all() else rows.filter(pa.array(mask))


def _described(rows: pa.Table, where: str, reason: str) -> pa.Table:
    """Return rows of a split as a table of bad rows that share one reason."""
    reasons = pa.repeat(pa.scalar(reason), rows.num_rows)
    return bad_table(where, pa.nulls(rows.num_rows, pa.int64()), reasons, as_text(rows))


def _stop_at(bad: pa.Table) -> BadRowError:
    first = bad.slice(0, 1).to_pylist()[0]
    place = first["file"] + (f", line {first['line']}" if first["line"] is not None else "")
    return BadRowError(
        f"malformed row in {place}",
        detail=f"{first['reason']}\n          {(first['text'] or '')[:200]}",
        hint="correct the row, or divert such rows to a separate folder with on_bad_row = 'divert'",
    )
