"""Delivery: rows leave a stage either to the sites of a subquery, cut by its directory, or to the sink's staging."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence

import pyarrow as pa

from penstock.checkpoint.store import staged_name
from penstock.engine.blob import Blob, Header
from penstock.engine.job import EpochJob, Message
from penstock.operators.arrange import hashes_of
from penstock.operators.base import Copying, Operator
from penstock.plan.program import Subquery
from penstock.sinks.base import RowWriter
from penstock.state.cells import Cells
from penstock.state.directory import Directory, HashRange, point
from penstock.state.runs import TIME


def blobs_for_sites(
    rows: pa.Table | None, directory: Directory, subquery: Subquery, header: Header
) -> Iterator[Message]:
    """One message for every site of the subquery. `rows` are sorted by hash, so each site's share is a few slices
    without a copy."""
    if rows is None or not rows.num_rows:
        parts: list[list[slice]] = [[] for _ in range(directory.sites)]
    else:
        parts = _parts_sent(rows, directory, subquery.operator, header.port)
    for site, mine in enumerate(parts):
        share = pa.concat_tables([rows[part] for part in mine]) if rows is not None and mine else None
        yield Message(subquery.number, site, Blob(header, share))


def _parts_sent(rows: pa.Table, directory: Directory, operator: Operator, port: int) -> list[list[slice]]:
    """For every site the parts of the rows that it is sent, in order."""
    hashes = hashes_of(rows)
    parts = [[part.rows(hashes) for part in ranges] for ranges in _ranges_sent(directory, operator, port)]
    for cells in directory.spread:
        shares = _shares_of_cells(rows, cells, point(cells.hash).rows(hashes), port)
        for site, share in zip(cells.sites, shares, strict=True):
            parts[site].append(share)
    return [sorted(mine, key=lambda part: part.start) for mine in parts] if directory.spread else parts


def _shares_of_cells(rows: pa.Table, cells: Cells, part: slice, port: int) -> Sequence[slice]:
    """The rows of a spread hash for each of its cells: dealt out, or all of them to each."""
    if port != cells.cut or part.start == part.stop:
        return [part] * len(cells.sites)
    return cells.dealt(part, turn=rows.column(TIME)[part.start].as_py())


def _ranges_sent(directory: Directory, operator: Operator, port: int) -> list[list[HashRange]]:
    """For every site the ranges of hashes whose rows it is sent, cells apart."""
    homes: list[list[HashRange]] = [[] for _ in range(directory.sites)]
    for site, part in directory.home_ranges():
        homes[site].append(part)
    return [operator.sent(port, ranges) for ranges in homes] if isinstance(operator, Copying) else homes


def writer_for(job: EpochJob, output: str, part: str, schema: pa.Schema) -> RowWriter:
    """A writer of one staged file of an output; `part` tells the tasks of an epoch apart."""
    place = job.outputs[output]
    return RowWriter(place.folder / staged_name(job.epoch, part, uuid.uuid4().hex, place.extension), schema)
