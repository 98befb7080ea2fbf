"""Merging the blobs of all producers at a site, and deriving the low-water mark from their punctuation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from penstock.engine.blob import Blob
from penstock.engine.job import EpochJob
from penstock.operators.aggregate import WindowAggregate
from penstock.progress.mark import Mark
from penstock.progress.rules import Seen, advance, low_water_mark, stream_mark


@dataclass(frozen=True)
class Arrived:
    """What came to a site in an epoch. `read` maps each producer to the attempt that was read: to several, joined by a
    plus sign, where blobs of more than one attempt came, which the driver will not commit."""

    read: dict[str, str]
    rows: pa.Table
    seen: tuple[Seen, ...]
    marks: tuple[Mark, ...]


def merge(operator: WindowAggregate, blobs: Iterable[Blob]) -> Arrived:
    ordered = sorted(blobs, key=lambda b: b.header.producer)  # the result must not depend on the order of arrival
    read: dict[str, str] = {}
    for blob in ordered:
        name, attempt = blob.header.producer, blob.header.attempt
        read[name] = f"{read[name]}+{attempt}" if name in read else attempt
    return Arrived(
        read=read,
        rows=operator.combine([b.rows for b in ordered if b.rows is not None]),
        seen=tuple(b.header.seen for b in ordered if b.header.seen is not None),
        marks=tuple(b.header.mark for b in ordered if b.header.mark is not None),
    )


def site_low_water_mark(job: EpochJob, subquery: int, arrived: Arrived) -> Mark:
    """The bound up to which no more rows can come to the site, by the punctuation of this epoch."""
    return low_water_mark(
        [*arrived.marks, *(_input_mark(job, i, arrived.seen) for i in job.program.inputs_of(subquery))]
    )


def _input_mark(job: EpochJob, index: int, seen: Iterable[Seen]) -> Mark:
    known, rule = job.sources[index], job.program.inputs[index].progress
    of_input = [s for s in seen if job.route_inputs[s.ordinal] == index]
    return stream_mark(advance(rule, known.marks, of_input), known.ended)
