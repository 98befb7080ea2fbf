"""Recovery: bring a checkpoint to the state from which a loop can run its next epoch. All files that a run reads or
writes before its first epoch are read or written here."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from penstock.checkpoint.store import Checkpoint
from penstock.connectors.source import Reader
from penstock.engine.driver.commit import nothing_yet
from penstock.engine.driver.gathering import fits
from penstock.engine.driver.grids import first_directory
from penstock.engine.driver.move_state import rescaled
from penstock.engine.driver.outputs import Outputs
from penstock.engine.driver.query_file import another_query, describe_query, refuse_unfit
from penstock.events import Event, RunRecovered
from penstock.plan.compile.subqueries import Query
from penstock.plan.fingerprint import fingerprint
from penstock.plan.logical import Source
from penstock.settings import Settings
from penstock.state.model import Manifest, SourceState, Totals
from penstock.storage.faults import FaultPoint, reach


def ignore(event: Event) -> None:
    """Do nothing with an event."""


@dataclass(frozen=True)
class Recovered:
    """A query and its checkpoint, ready for the next epoch. Invariant: `manifest` is the newest one of the checkpoint,
    perhaps with another number of sites, all files that it names are published, and there are no files of later
    epochs. `readers` are those of the sources, in their order."""

    query: Query
    checkpoint: Checkpoint
    settings: Settings
    outputs: Outputs
    readers: tuple[Reader, ...]
    manifest: Manifest


def recover(
    query: Query, checkpoint: Checkpoint, settings: Settings, tell: Callable[[Event], None] = ignore
) -> Recovered:
    """Open the sources, find or create the newest manifest, publish what it names, and remove files of epochs that were
    not committed."""
    outputs, readers = Outputs(query, settings, checkpoint.root), _opened(query.sources)
    with checkpoint.explaining():
        found = checkpoint.newest()
        if found is None:
            manifest = first_manifest(query, settings, outputs.folders())
            _create(query, checkpoint, outputs, manifest)
        else:
            _refuse_other(query, checkpoint, outputs, found)
            manifest = with_sites(found, settings.sites)
            tell(RunRecovered(found.epoch, manifest.subqueries != found.subqueries))
        _make_true(checkpoint, outputs, manifest)
    return Recovered(query, checkpoint, settings, outputs, readers, replace(manifest, folders=outputs.folders()))


def _opened(sources: Sequence[Source]) -> tuple[Reader, ...]:
    return tuple(source.connector.open(source.schema, source.time) for source in sources)  # type: ignore[attr-defined]


def first_manifest(query: Query, settings: Settings, folders: dict[str, str]) -> Manifest:
    """Return the manifest of a new checkpoint, before any epoch."""
    sites, groups = settings.sites, settings.groups_per_site
    operators = [subquery.operator for subquery in query.program.subqueries]
    return Manifest(
        query_id=uuid.uuid4().hex,
        fingerprint=fingerprint(query.sink, query.options),
        epoch=0,
        sources=tuple(SourceState(None, {}, False) for _ in query.sources),
        subqueries=tuple(nothing_yet(first_directory(o, sites, groups), o.tracks) for o in operators),
        staged=(),
        folders=folders,
        totals=Totals(),
        finished=False,
        asked_sites=sites,
    )


def with_sites(found: Manifest, sites: int) -> Manifest:
    """Return the manifest with the number of sites that a run asks for, unless the last run asked for the same, or a
    spread key must be gathered first."""
    if sites == found.asked_sites or not all(fits(state, sites) for state in found.subqueries):
        return found
    return replace(found, subqueries=tuple(rescaled(state, sites) for state in found.subqueries), asked_sites=sites)


def _create(query: Query, checkpoint: Checkpoint, outputs: Outputs, manifest: Manifest) -> None:
    """Create a new checkpoint, after all outputs have been checked."""
    outputs.check()
    describe_query(checkpoint.root, query)
    checkpoint.commit(manifest)


def _refuse_other(query: Query, checkpoint: Checkpoint, outputs: Outputs, found: Manifest) -> None:
    """Raise an error if a checkpoint does not belong to the query."""
    if found.fingerprint != fingerprint(query.sink, query.options):
        raise another_query(checkpoint.root, query)
    refuse_unfit(found, query.program, outputs.folders())


def _make_true(checkpoint: Checkpoint, outputs: Outputs, manifest: Manifest) -> None:
    """Publish what a manifest names, and remove files of uncommitted epochs."""
    outputs.prepare(manifest)
    outputs.publish(manifest)
    checkpoint.collect((*outputs.staging().values(), *outputs.left_staging(manifest)), recovering=True)
    reach(FaultPoint.RECOVERED)
