"""What tests of manifests share: one to begin from, and files with whatever body under a checksum that fits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import xxhash

from penstock.checkpoint import manifest as manifests
from penstock.checkpoint.manifest import FORMAT, Manifest, SourceState, Staged, SubqueryState, Totals
from penstock.progress.mark import at
from penstock.state.runs import RunFile

CHECKSUM = "0123456789abcdef"
RUN = RunFile("e000000000003-q0-s0-ä.arrow", 0, 3, 512, CHECKSUM, -5, 0, 2**62)
STAGED = Staged("results", "e000000000003-x.parquet", 2, 9, CHECKSUM)


def manifest_of(epoch: int, *subqueries: SubqueryState, **changes: Any) -> Manifest:
    """The manifest of a query with these subqueries and one source."""
    plain = Manifest(
        format=FORMAT,
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
