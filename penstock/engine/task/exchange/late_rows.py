"""Collect the late rows of a split: each row once, with all columns of its source and the targets it was late for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrow import AnyList, nulls
from penstock.engine.task.exchange.deliver import writer_for
from penstock.engine.wire.job import EpochJob, RouteTask, route_producer
from penstock.kernels.arrays import Times
from penstock.kernels.hash import as_array
from penstock.plan.program import PLACE, SINK, Input
from penstock.state.model import Staged
from penstock.types import time_array

Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class LateFor:
    """Rows, by their places in the split, that are late for a target: for the rows' windows from the start `first` to
    the end `last`, or as rows (None). A place can occur more than once."""

    target: int
    places: Places
    first: Times | None = None
    last: Times | None = None


class LateRows:
    """Collects the rows that are found to be late while a split is read."""

    def __init__(self, job: EpochJob, task: RouteTask) -> None:
        self._job, self._task = job, task
        self._input = job.program.inputs[task.input]
        self._behind: list[pa.Table] = []
        self._found: list[LateFor] = []

    def add(self, behind: pa.Table, found: Iterable[LateFor]) -> None:
        """Add rows behind the punctuation, and those among them that are late, by target."""
        self._behind.append(behind)
        self._found += (late for late in found if len(late.places))

    @property
    def places(self) -> Places:
        """Return the places of all late rows, sorted."""
        return np.unique(np.concatenate([np.empty(0, np.int64), *(late.places for late in self._found)]))

    def stage(self, rows_read: int) -> tuple[Staged, ...]:
        """Write the late rows and return their staged file; call it when the split has been read. `rows_read` is how
        many rows with places it gave."""
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
        """Return the late rows with all columns of the source. Reads the split again, since the query reads only some
        columns."""
        schema = self._input.schema
        whole = pa.concat_tables([part.rows for part in self._task.split.read(tuple(schema.names))])
        if whole.num_rows == rows_read:
            return whole.take(places)
        # A column that the query does not read is malformed in some rows: keep the columns read; the others are null.
        narrow = pa.concat_tables(self._behind)
        narrow = narrow.filter(pa.array(np.isin(narrow.column(PLACE).to_numpy(), places)))
        columns = [
            narrow.column(f.name) if f.name in narrow.column_names else pa.nulls(narrow.num_rows, f.type)
            for f in schema
        ]
        return pa.table(columns, schema=schema)


def late_for(part: Input, found: Sequence[LateFor]) -> AnyList:
    """Return the targets that each late row was late for, sorted by place: a list of (target, first, last), one per
    target."""
    time, type_ = part.schema.field(part.time).type, part.late_schema.field(-1).type
    every = pa.concat_tables([_entries(late, time) for late in found])
    by_target = every.group_by(["place", "target"]).aggregate([("first", "min"), ("last", "max")])
    by_target = by_target.sort_by([("place", "ascending"), ("target", "ascending")]).combine_chunks()
    target, first, last = (as_array(by_target.column(name)) for name in ("target", "first_min", "last_max"))
    targets = pc.if_else(pc.equal(target, pa.scalar(SINK)), pa.scalar(None, pa.int32()), target)
    entries = pa.StructArray.from_arrays([targets, first, last], fields=list(type_.value_type))
    _, starts = np.unique(by_target.column("place").to_numpy(), return_index=True)
    offsets = pa.array(np.append(starts, len(entries)), pa.int32())
    return pa.ListArray.from_arrays(offsets, entries, type=type_)


def _entries(late: LateFor, time: pa.DataType) -> pa.Table:
    """Return a table with one row (place, target, first, last) per late row of a target."""
    count = len(late.places)
    targets = pa.array(np.full(count, late.target), pa.int32())
    borders = [nulls(count, time) if b is None else time_array(b, time) for b in (late.first, late.last)]
    return pa.table([pa.array(late.places), targets, *borders], names=["place", "target", "first", "last"])
