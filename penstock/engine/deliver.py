"""Delivery: rows leave a stage either to the sites of a subquery, cut by its directory, or to the sink's staging."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pyarrow as pa

from penstock.checkpoint.store import staged_name
from penstock.engine.blob import Blob, Header
from penstock.engine.job import EpochJob, Message
from penstock.sinks.base import RowWriter
from penstock.state.directory import Directory
from penstock.state.runs import HASH


def blobs_for_sites(rows: pa.Table | None, directory: Directory, subquery: int, header: Header) -> Iterator[Message]:
    """One message for every site of the subquery. `rows` are sorted by hash, so each site's share is a few slices
    without a copy."""
    shares: list[list[pa.Table]] = [[] for _ in range(directory.sites)]
    if rows is not None and rows.num_rows:
        hashes = rows.column(HASH).to_numpy()
        for site, part in directory.home_ranges():
            shares[site].append(rows[part.rows(hashes)])
    for site, parts in enumerate(shares):
        share = pa.concat_tables(parts) if parts else None
        yield Message(subquery, site, Blob(header, share).encode())


def writer_for(job: EpochJob, output: str, part: str, schema: pa.Schema) -> RowWriter:
    """A writer of one staged file of an output; `part` tells the tasks of an epoch apart."""
    place = job.outputs[output]
    return RowWriter(place.folder / staged_name(job.epoch, part, uuid.uuid4().hex, place.extension), schema)
