"""Whether a manifest fits the query that goes on from it: what only the query knows of it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from penstock.checkpoint.manifest import Manifest, SiteState, file_name
from penstock.errors import CorruptCheckpointError
from penstock.plan.program import Program, Subquery


def refuse_unfit(manifest: Manifest, program: Program, outputs: Collection[str]) -> None:
    """Raise an error where a manifest has the fingerprint of a query and cannot be one of it."""
    for why in _misfits(manifest, program, outputs):
        raise CorruptCheckpointError(
            f"the manifest {file_name(manifest.epoch)} of the checkpoint does not fit the query",
            detail=why,
            hint="restore the file from a backup, or start again with a new checkpoint",
        )


def _misfits(manifest: Manifest, program: Program, outputs: Collection[str]) -> Iterator[str]:
    yield from _counted("sources", len(manifest.sources), len(program.inputs))
    yield from _counted("stateful operators", len(manifest.subqueries), len(program.subqueries))
    if set(manifest.folders) != set(outputs):
        yield f"it has the outputs {', '.join(sorted(manifest.folders))}, and the query {', '.join(sorted(outputs))}"
    for subquery, state in zip(program.subqueries, manifest.subqueries, strict=True):
        for site in state.sites:
            yield from _site_misfits(site, subquery)


def _site_misfits(site: SiteState, subquery: Subquery) -> Iterator[str]:
    ports, tracks = subquery.operator.ports, subquery.operator.tracks
    for piece in site.all_slices():
        if piece.run.port >= ports:
            yield f"{piece.run.name} is of input {piece.run.port} of an operator that has {ports}"
    for part in site.marks:
        yield from _counted("marks of a range of hashes", len(part.marks), tracks)
    if site.pending and not subquery.operator.probes:
        yield "rows wait for an operator that takes all of them at once"
    if site.held and not subquery.ordered:
        yield "rows are held back, and the query does not put them in order"


def _counted(what: str, found: int, wanted: int) -> Iterator[str]:
    if found != wanted:
        yield f"{what}: it has {found}, and the query {wanted}"
