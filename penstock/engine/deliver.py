"""Delivery: rows leave a stage either to the sites of a subquery, cut by its directory, or to the sink's staging."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pyarrow as pa

from penstock.checkpoint.store import staged_name
from penstock.engine.blob import Blob, Header
from penstock.engine.job import EpochJob, Message
from penstock.operators.arrange import hashes_of
from penstock.operators.base import Copying, Operator
from penstock.plan.program import Subquery
from penstock.sinks.base import RowWriter
from penstock.state.directory import Directory, HashRange


def blobs_for_sites(
    rows: pa.Table | None, directory: Directory, subquery: Subquery, header: Header
) -> Iterator[Message]:
    """One message for every site of the subquery. `rows` are sorted by hash, so each site's share is a few slices
    without a copy."""
    hashes = None if rows is None or not rows.num_rows else hashes_of(rows)
    for site, ranges in enumerate(_ranges_sent(directory, subquery.operator, header.port)):
        share = None
        if rows is not None and hashes is not None and ranges:
            share = pa.concat_tables([rows[part.rows(hashes)] for part in ranges])
        yield Message(subquery.number, site, Blob(header, share))


def _ranges_sent(directory: Directory, operator: Operator, port: int) -> list[list[HashRange]]:
    """For every site the ranges of hashes whose rows it is sent."""
    homes: list[list[HashRange]] = [[] for _ in range(directory.sites)]
    for site, part in directory.home_ranges():
        homes[site].append(part)
    return [operator.sent(port, ranges) for ranges in homes] if isinstance(operator, Copying) else homes


def writer_for(job: EpochJob, output: str, part: str, schema: pa.Schema) -> RowWriter:
    """A writer of one staged file of an output; `part` tells the tasks of an epoch apart."""
    place = job.outputs[output]
    path = place.folder / staged_name(job.epoch, part, uuid.uuid4().hex, place.extension)
    return RowWriter(path, schema, place.compression)
