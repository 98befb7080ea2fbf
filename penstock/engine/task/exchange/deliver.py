"""Delivery: rows leave a task either to the sites of a subquery, cut by its directory, or to the staged files of the
sink.

Rows for a subquery are sent as pre-aggregated state rows, or unchanged if the site has to order or number them first.

Late rows of a split go to an output of their own: each row once, with all columns of its source and the targets it was
late for.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrow import AnyList, nulls
from penstock.connectors.sinks.sink import RowWriter
from penstock.engine.wire.blob import Blob, Header
from penstock.engine.wire.job import EpochJob, Message, RouteTask, ToSite, route_producer
from penstock.kernels.arrays import Times
from penstock.operators.arrange import hashes_of, merged
from penstock.operators.protocol import Copying, Operator, Orderable
from penstock.plan.program import PLACE, Input, Subquery
from penstock.state.directory import Directory
from penstock.state.hash_ranges import HashRange, Places, SiteOrder, point
from penstock.state.hot_keys import Cells
from penstock.state.model import Staged
from penstock.state.runs import TIME
from penstock.storage.durable import Sync, staged_name, sync_file
from penstock.types import as_array, row_numbers, time_array

_SINK_FIRST = -1  # stands for the sink while targets are sorted
FEW_RANGES = 4  # per site, on average: more slices than this cost more than a copy of the rows
OfCells = Sequence[tuple[int, slice]]  # (site of the cell, slice of the rows that it is sent)


def travelling(subquery: Subquery, port: int, rows: pa.Table, order: SiteOrder | None) -> pa.Table:
    """Return rows in the form in which they are sent to a port of a subquery."""
    operator = subquery.operator
    if order is not None and isinstance(operator, Orderable):
        return operator.prepare_by(order.words, port, rows)
    return operator.arrange(port, rows) if subquery.takes_rows else operator.prepare(port, rows)


def together(subquery: Subquery, port: int, tables: Sequence[pa.Table], order: SiteOrder | None = None) -> pa.Table:
    """Combine tables in the form in which they are sent into one table of that form."""
    operator = subquery.operator
    if order is not None and isinstance(operator, Orderable):
        return operator.combine_by(order.words, port, tables)
    return merged(tables, tables[0].schema) if subquery.takes_rows else operator.combine(port, tables)


def are_scattered(directory: Directory) -> bool:
    """Return whether the directory cuts rows sorted by hash into very many slices."""
    return len(directory.home_range_arrays[0]) > FEW_RANGES * directory.sites


def blobs_for_sites(
    rows: pa.Table | None, directory: Directory, subquery: Subquery, header: Header, order: SiteOrder | None = None
) -> Iterator[Message]:
    """Yield one message for every site of the subquery, with its part of the rows. The rows are sorted by hash, or by
    `order` if given."""
    shares: Iterable[pa.Table | None] = [None] * directory.sites
    if rows is not None and rows.num_rows:
        shares = _shares(rows, directory, subquery.operator, header.port, order)
    for site, share in enumerate(shares):
        yield Message(ToSite(subquery.number, site), Blob(header, share))


def _shares(
    rows: pa.Table, directory: Directory, operator: Operator, port: int, order: SiteOrder | None
) -> Iterator[pa.Table | None]:
    """Yield the rows of every site, sorted by hash."""
    if order is not None:
        return (rows[part] for part in order.cuts(hashes_of(rows)))
    copies, of_cells = operator if isinstance(operator, Copying) else None, _of_cells(rows, directory, port)
    if copies is None and are_scattered(directory):
        return _gathered(rows, directory, of_cells)
    homes = [directory.home_ranges_of(site) for site in range(directory.sites)]
    return _slices(rows, homes if copies is None else [copies.sent(port, list(home)) for home in homes], of_cells)


def _of_cells(rows: pa.Table, directory: Directory, port: int) -> OfCells:
    """Return the slices that the cells of spread hashes are sent, each with the site of the cell."""
    found = ((cells, point(cells.hash).rows(hashes_of(rows))) for cells in directory.spread)
    return [
        sent
        for cells, part in found
        if part.start < part.stop
        for sent in zip(cells.sites, _shared_or_copied(rows, cells, part, port), strict=True)
    ]


def _shared_or_copied(rows: pa.Table, cells: Cells, part: slice, port: int) -> Sequence[slice]:
    """Return the slice of a spread hash's rows for each of its cells: disjoint slices on the port that is cut, all rows
    on the others."""
    if port != cells.cut:
        return [part] * len(cells.sites)
    return cells.parts_of(part, turn=rows.column(TIME)[part.start].as_py())


def _slices(rows: pa.Table, ranges: Sequence[Sequence[HashRange]], of_cells: OfCells) -> Iterator[pa.Table | None]:
    """Yield the rows of every site as slices, without a copy."""
    hashes = hashes_of(rows)
    for site, own in enumerate(ranges):
        parts = [part.rows(hashes) for part in own] + [part for to, part in of_cells if to == site]
        parts.sort(key=lambda part: part.start)
        yield pa.concat_tables([rows[part] for part in parts]) if parts else None


def _gathered(rows: pa.Table, directory: Directory, of_cells: OfCells) -> Iterator[pa.Table]:
    """Yield the rows of every site from one copy of all rows sorted by site; the cost does not depend on the number of
    slices."""
    begins, counts, homes = _by_home(rows, directory, of_cells)
    by_home = pc.take(rows, row_numbers(_places(begins, counts)), boundscheck=False)
    first = 0
    for count in np.bincount(homes, weights=counts, minlength=directory.sites).astype(np.int64).tolist():
        yield by_home.slice(first, count)
        first += count


def _by_home(rows: pa.Table, directory: Directory, of_cells: OfCells) -> tuple[Places, Places, Places]:
    """Return the first row, the number of rows and the site of every slice, sorted by site and then by hash."""
    lows, homes = directory.home_range_arrays
    begins, order = np.searchsorted(hashes_of(rows), lows), directory.home_ranges_by_site
    counts = np.diff(begins, append=rows.num_rows)
    parts = begins[order], counts[order], homes[order]
    if not of_cells:
        return parts
    sent = np.asarray([(part.start, part.stop - part.start, site) for site, part in of_cells], np.int64)
    begins, counts, homes = (np.concatenate(both) for both in zip(parts, sent.T, strict=True))
    order = np.lexsort((begins, homes))
    return begins[order], counts[order], homes[order]


def _places(begins: Places, counts: Places) -> npt.NDArray[np.int32]:
    """Return the row numbers of all slices, one after another."""
    shifts = (begins - np.cumsum(counts) + counts).astype(np.int32)
    return np.arange(counts.sum(), dtype=np.int32) + np.repeat(shifts, counts)


def writer_for(job: EpochJob, output: str, part: str, schema: pa.Schema, sync: Sync = sync_file) -> RowWriter:
    """Return a writer of one staged file of an output. `part` is unique among the tasks of an epoch; `sync` makes the
    file durable."""
    place = job.outputs[output]
    path = place.folder / staged_name(job.epoch, part, uuid.uuid4().hex, place.extension)
    return RowWriter(path, schema, place.compression, sync)


@dataclass(frozen=True)
class LateFor:
    """Rows, by their places in the split, that are late for a target (None: the sink): for the rows' windows from the
    start `first` to the end `last`, or as rows (None). A place can occur more than once."""

    target: int | None
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
    targets = pc.if_else(pc.equal(target, pa.scalar(_SINK_FIRST)), pa.scalar(None, pa.int32()), target)
    entries = pa.StructArray.from_arrays([targets, first, last], fields=list(type_.value_type))
    _, starts = np.unique(by_target.column("place").to_numpy(), return_index=True)
    offsets = pa.array(np.append(starts, len(entries)), pa.int32())
    return pa.ListArray.from_arrays(offsets, entries, type=type_)


def _entries(late: LateFor, time: pa.DataType) -> pa.Table:
    """Return a table with one row (place, target, first, last) per late row of a target."""
    count = len(late.places)
    targets = pa.array(np.full(count, _SINK_FIRST if late.target is None else late.target), pa.int32())
    borders = [nulls(count, time) if b is None else time_array(b, time) for b in (late.first, late.last)]
    return pa.table([pa.array(late.places), targets, *borders], names=["place", "target", "first", "last"])
