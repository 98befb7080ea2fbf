"""Delivery: rows leave a stage either to the sites of a subquery, cut by its directory, or to the sink's staging."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.checkpoint.store import staged_name
from penstock.engine.blob import Blob, Header
from penstock.engine.job import EpochJob, Message
from penstock.operators.arrange import hashes_of
from penstock.operators.base import Copying, Operator
from penstock.plan.program import Subquery
from penstock.sinks.base import RowWriter
from penstock.state.directory import Directory, HashRange, Places

FEW_STRETCHES = 4  # per site, on average: more slices than these cost more than a copy of the rows


def blobs_for_sites(
    rows: pa.Table | None, directory: Directory, subquery: Subquery, header: Header
) -> Iterator[Message]:
    """One message for every site of the subquery, each with its share of the rows, which are sorted by hash."""
    shares: Iterable[pa.Table | None] = [None] * directory.sites
    if rows is not None and rows.num_rows:
        shares = _shares(rows, directory, subquery.operator, header.port)
    for site, share in enumerate(shares):
        yield Message(subquery.number, site, Blob(header, share))


def _shares(rows: pa.Table, directory: Directory, operator: Operator, port: int) -> Iterator[pa.Table | None]:
    """For every site the rows that it is sent, in order of hash."""
    copies = operator if isinstance(operator, Copying) else None
    if copies is None and len(directory.stretches[0]) > FEW_STRETCHES * directory.sites:
        return _gathered(rows, directory)
    homes = [directory.ranges_of(site) for site in range(directory.sites)]
    return _slices(rows, homes if copies is None else [copies.sent(port, list(home)) for home in homes])


def _slices(rows: pa.Table, ranges: Sequence[Sequence[HashRange]]) -> Iterator[pa.Table | None]:
    """Without a copy."""
    hashes = hashes_of(rows)
    for own in ranges:
        yield pa.concat_tables([rows[part.rows(hashes)] for part in own]) if own else None


def _gathered(rows: pa.Table, directory: Directory) -> Iterator[pa.Table]:
    """With one copy of all rows, whatever the number of stretches."""
    lows, homes = directory.stretches
    begins = np.searchsorted(hashes_of(rows), lows)
    counts = np.diff(begins, append=rows.num_rows)
    by_home = pc.take(rows, pa.array(_stretches_by_home(directory, begins, counts)), boundscheck=False)
    first = 0
    for count in np.bincount(homes, weights=counts, minlength=directory.sites).astype(np.int64).tolist():
        yield by_home.slice(first, count)
        first += count


def _stretches_by_home(directory: Directory, begins: Places, counts: Places) -> Places:
    """The places of rows, stretch by stretch, first those of the first site."""
    order = directory.stretches_by_home
    begins, counts = begins[order], counts[order]
    before = np.cumsum(counts) - counts
    return np.asarray(np.arange(int(counts.sum())) + np.repeat(begins - before, counts))


def writer_for(job: EpochJob, output: str, part: str, schema: pa.Schema) -> RowWriter:
    """A writer of one staged file of an output; `part` tells the tasks of an epoch apart."""
    place = job.outputs[output]
    path = place.folder / staged_name(job.epoch, part, uuid.uuid4().hex, place.extension)
    return RowWriter(path, schema, place.compression)
