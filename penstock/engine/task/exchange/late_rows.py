"""The late rows of a split: each of them once, with all columns of its source and what it was late for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.checkpoint.manifest import Staged
from penstock.engine.task.exchange.deliver import writer_for
from penstock.engine.wire.job import EpochJob, RouteTask, route_producer
from penstock.kernels.arrays import Times
from penstock.kernels.hash import as_array
from penstock.plan.program import PLACE, SINK, Input
from penstock.types import time_array

Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class LateFor:
    """Rows, by their places in the split, that a target has missed: some of their windows, from the start `first` to
    the end `last` (None: the rows themselves). A place may stand here more than once."""

    target: int
    places: Places
    first: Times | None = None
    last: Times | None = None


class LateRows:
    """Collects what is found to be late while a split is read."""

    def __init__(self, job: EpochJob, task: RouteTask) -> None:
        self._job, self._task = job, task
        self._input = job.program.inputs[task.input]
        self._behind: list[pa.Table] = []
        self._found: list[LateFor] = []

    def add(self, behind: pa.Table, found: Iterable[LateFor]) -> None:
        """Take note of what some rows behind the punctuation were found to be late for."""
        self._behind.append(behind)
        self._found += (late for late in found if len(late.places))

    @property
    def places(self) -> Places:
        """The places of all late rows, in order."""
        return np.unique(np.concatenate([np.empty(0, np.int64), *(late.places for late in self._found)]))

    def stage(self, rows_read: int) -> tuple[Staged, ...]:
        """Write the late rows; call it when the split has been read, which gave so many rows with places."""
        output, places = self._job.late_outputs[self._task.input], self.places
        writer = writer_for(self._job, output, route_producer(self._task.ordinal), self._input.late_schema)
        if len(places):
            rows = self._whole(places, rows_read)
            if self._input.late_for:
                rows = rows.append_column(self._input.late_schema.field(-1), late_for(self._input, self._found))
            writer.write(rows)
        staged = writer.finish(output)
        return (staged,) if staged else ()

    def _whole(self, places: Places, rows_read: int) -> pa.Table:
        """The late rows with all columns of the source: the split is read again, since the query reads only some."""
        schema = self._input.schema
        whole = pa.concat_tables([part.rows for part in self._task.split.read(tuple(schema.names))])
        if whole.num_rows == rows_read:
            return whole.take(pa.array(places))
        # A column that the query does not read is malformed in some rows: keep what was read, the rest is null.
        narrow = pa.concat_tables(self._behind)
        narrow = narrow.filter(pa.array(np.isin(narrow.column(PLACE).to_numpy(), places)))
        columns = [
            narrow.column(f.name) if f.name in narrow.column_names else pa.nulls(narrow.num_rows, f.type)
            for f in schema
        ]
        return pa.table(columns, schema=schema)


def late_for(part: Input, found: Sequence[LateFor]) -> pa.ListArray:
    """What each late row was late for, in order of places: one entry for each target, in order."""
    time, type_ = part.schema.field(part.time).type, part.late_schema.field(-1).type
    every = pa.concat_tables([_entries(late, time) for late in found])
    by_target = every.group_by(["place", "target"]).aggregate([("first", "min"), ("last", "max")])
    by_target = by_target.sort_by([("place", "ascending"), ("target", "ascending")]).combine_chunks()
    target, first, last = (as_array(by_target.column(name)) for name in ("target", "first_min", "last_max"))
    targets = pc.if_else(pc.equal(target, SINK), pa.scalar(None, pa.int32()), target)
    entries = pa.StructArray.from_arrays([targets, first, last], fields=list(type_.value_type))
    _, starts = np.unique(by_target.column("place").to_numpy(), return_index=True)
    offsets = pa.array(np.append(starts, len(entries)), pa.int32())
    return pa.ListArray.from_arrays(offsets, entries, type=type_)


def _entries(late: LateFor, time: pa.DataType) -> pa.Table:
    count = len(late.places)
    targets = pa.array(np.full(count, late.target), pa.int32())
    borders = [pa.nulls(count, time) if b is None else time_array(b, time) for b in (late.first, late.last)]
    return pa.table([pa.array(late.places), targets, *borders], names=["place", "target", "first", "last"])
