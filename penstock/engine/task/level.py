"""What a task of an epoch does: route one split, or take the messages of its partition, run its site, and pass on the
rest.

An epoch is one job with one shuffle per level: blobs for later levels and reports travel in band to the end of it, so
that only what winning attempts sent counts. Routing reads a split, runs the stateless steps, pre-aggregates, and cuts
the rows by the directory. Of a split, rows that are on time go on, those behind the punctuation are told apart, bad
rows are staged; rows that are punctuation and nothing else end here: what they say is in `seen`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.clock import Clock, Stopwatch
from penstock.connectors.bad_rows import as_text, bad_table
from penstock.connectors.source import BAD_ROWS_SCHEMA
from penstock.engine.task.exchange.branches import Branches
from penstock.engine.task.exchange.deliver import LateRows, writer_for
from penstock.engine.task.site.step import site_step
from penstock.engine.wire.blob import Blob, Header
from penstock.engine.wire.job import (
    TO_DRIVER,
    EpochJob,
    Message,
    Report,
    RouteReport,
    RouteTask,
    SiteResult,
    TaskFailure,
    ToDriver,
    ToSite,
    route_producer,
    site_producer,
)
from penstock.errors import BadRowError, PenstockError
from penstock.expr.evaluate.scalar import keep
from penstock.kernels.arrays import Flags, Times
from penstock.plan.program import PLACE, ROW_NUMBER
from penstock.progress.mark import Punctuated, Seen
from penstock.state.model import Staged
from penstock.storage.faults import FaultPoint, reach
from penstock.types import time_values


def run_route(job: EpochJob, task: RouteTask, clock: Clock) -> Iterator[Message]:
    """Yield the messages of one split, or a failure message on an error of Penstock: a retry by the executor would only
    repeat it."""
    try:
        yield from route(job, task, clock)
    except PenstockError as error:
        yield Message(TO_DRIVER, TaskFailure(route_producer(task.ordinal), error))


def run_level(
    job: EpochJob, level: int, partition: int, messages: Iterable[Message], clock: Clock
) -> Iterator[Message]:
    """Run the site of a partition on its blobs, and forward messages for later levels and reports unchanged. The report
    of the site is the last message: then its files are durable."""
    blobs: list[Blob] = []
    for message in messages:
        match message:
            case Message(ToSite(subquery), Blob() as blob) if subquery == level:
                blobs.append(blob)
            case _:
                yield message
    if partition < job.directories[level].sites:
        match run_site(job, level, partition, blobs, clock):
            case TaskFailure() as failure:
                yield Message(TO_DRIVER, failure)
            case SiteResult() as result:
                yield from result.messages
                yield Message(TO_DRIVER, once_durable(result))


def run_site(job: EpochJob, subquery: int, site: int, blobs: Iterable[Blob], clock: Clock) -> SiteResult | TaskFailure:
    """Run a site on its blobs. Its files may not be durable yet: see `once_durable`."""
    try:
        return site_step(job, subquery, site, blobs, clock)
    except PenstockError as error:
        return TaskFailure(site_producer(subquery, site), error)


def once_durable(result: SiteResult) -> Report:
    """Wait until the files of a site are durable and return its report, or the failure if they cannot be made so."""
    try:
        result.durable.result()
    except PenstockError as error:
        return TaskFailure(result.report.producer, error)
    return result.report


def partition_of(to: ToSite | ToDriver, width: int) -> int:
    """Return the partition to which a message goes, among `width` partitions: the one in which its site runs. For a
    report, which only passes through, any will do."""
    return to.site % width if isinstance(to, ToSite) else 0


def route(job: EpochJob, task: RouteTask, clock: Clock) -> Iterator[Message]:
    """Yield the messages of one split: a blob for every site of the subqueries that it feeds, and its report."""
    watch = Stopwatch(clock)
    producer, reading, late = route_producer(task.ordinal), SplitReading(job, task), LateRows(job, task)
    branches = Branches(job, job.program.inputs[task.input].branches, producer)
    for rows in reading.taken():
        watch.lap("read")
        branches.take(rows.on_time)
        if rows.behind is not None:
            late.add(rows.behind, branches.take_behind(rows.behind, task.late_below))
        watch.lap("prepare")
    reach(FaultPoint.ROUTE_READ)
    watch.lap("read")
    diverted = (*reading.stage_bad(), *late.stage(reading.places))
    reach(FaultPoint.ROUTE_DIVERTED)
    header = Header(producer, uuid.uuid4().hex, ordinal=task.ordinal, seen=reading.seen, numbered=reading.numbered)
    staged = (*diverted, *branches.staged())
    watch.lap("write")
    yield from branches.messages(header)
    watch.lap("exchange")
    report = RouteReport(
        producer=header.producer,
        attempt=header.attempt,
        input=task.input,
        seen=reading.seen,
        rows_read=reading.rows,
        rows_out=branches.rows_out,
        rows_late=len(late.places),
        rows_bad=reading.bad,
        numbered=reading.numbered,
        staged=staged,
        time=watch.task_time(),
        bytes_read=reading.bytes,
    )
    yield Message(TO_DRIVER, report)


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
        self.rows = self.bad = self.numbered = self.places = self.bytes = 0

    @property
    def seen(self) -> Seen:
        """Return the punctuation of the split, from the rows read so far."""
        return self._seen

    def taken(self) -> Iterator[Taken]:
        """Yield the rows of the split, table by table; bad rows are staged or raise an error."""
        for result in self._task.split.read(self._input.columns):
            self.rows += result.rows.num_rows
            self.bytes += result.rows.nbytes
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

    def _placed(self, rows: pa.Table, some: Flags) -> pa.Table:
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

    def _marking(self, rows: pa.Table) -> Flags:
        """Return a mask of the rows that are punctuation."""
        found = np.zeros(rows.num_rows, np.bool_)
        rule = self._input.progress
        if isinstance(rule, Punctuated) and rows.num_rows:
            placed = rows.append_column(PLACE, pa.array(np.arange(rows.num_rows)))
            found[keep(placed, rule.predicate).column(PLACE).to_numpy()] = True
        return found

    def _within_range(self, rows: pa.Table, times: Times, data: Flags) -> Flags:
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

    def _with_numbers(self, rows: pa.Table, good: Flags | None) -> pa.Table:
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


def _where(rows: pa.Table, mask: Flags) -> pa.Table:
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
