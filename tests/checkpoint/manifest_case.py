"""What tests of manifests share: one to begin from, and files with whatever body under a checksum that fits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import xxhash

from penstock.checkpoint import manifest as manifests
from penstock.progress.mark import BEGIN, END, at
from penstock.state.directory import Group, uniform
from penstock.state.hash_ranges import HASH_END, HashRange
from penstock.state.hot_keys import Cells
from penstock.state.model import Manifest, ParkedRange, RangeMark, SiteState, SourceState, Staged, SubqueryState, Totals
from penstock.state.runs import RunFile, Slice

CHECKSUM = "0123456789abcdef"
RUN = RunFile("e000000000003-q0-s0-ä.arrow", 0, 3, 512, CHECKSUM, -5, 0, 2**62)
STAGED = Staged("results", "e000000000003-x.parquet", 2, 9, CHECKSUM)


def manifest_of(epoch: int, *subqueries: SubqueryState, **changes: Any) -> Manifest:
    """The manifest of a query with these subqueries and one source."""
    plain = Manifest(
        query_id="query",
        fingerprint="print",
        epoch=epoch,
        sources=(SourceState({"batches": 3}, {"memory": at(12)}, False),),
        subqueries=subqueries,
        staged=(STAGED,),
        folders={"results": "out/_penstock"},
        totals=Totals(1, 2, 3, 4),
        finished=False,
    )
    return replace(plain, **changes)


def write_body(folder: Path, epoch: int, body: bytes) -> None:
    """Write a manifest with this body, whatever it is."""
    sealed = b'{"checksum":"%s","body":%s}' % (xxhash.xxh3_64_hexdigest(body).encode(), body)
    (folder / manifests.file_name(epoch)).write_bytes(sealed)


def full_manifest() -> Manifest:
    """Return a manifest in which every field has a value other than its default. Its bytes are recorded."""
    spread = uniform(2, 2).split(Group(1, 2)).spread_over(Cells(5, 1, (1, 0))).gathering([5])
    directory = replace(spread, grid=(1, 2))
    run = replace(RUN, port=1, size=600_000, blocks=CHECKSUM * 3)
    slices = (Slice(run, HashRange(0, HASH_END // 2)), Slice(RUN, HashRange(3, HASH_END)))
    marks = (RangeMark(HashRange(0, 7), (BEGIN, END)), RangeMark(HashRange(7, HASH_END), (at(-1), at(2**62))))
    parked = (ParkedRange(HashRange(7, 9), (slices[:1], slices[1:])), ParkedRange(HashRange(12, HASH_END), ((),)))
    site = SiteState(slices, marks, slices[:1], slices[1:], at(3), HASH_END - 1, parked, slices[1:])
    sources = (
        SourceState({"batches": 3, "ä": [None, 0.5, {}]}, {"memory": at(12), "other": END}, False, at(-12), 9),
        SourceState(None, {}, True),
    )
    return manifest_of(
        7,
        SubqueryState(directory, (site, SiteState((), ()))),
        sources=sources,
        folders={"results": "out/_penstock", "late/a": "late/a/_penstock"},
        finished=True,
        published={"results": 6, "late/a": 2},
        asked_sites=3,
    )
