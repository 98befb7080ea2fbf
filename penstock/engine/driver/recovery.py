"""Bring a checkpoint to the state from which a loop can run its next epoch. All files that a run reads or writes
before its first epoch are read or written here.

A checkpoint must belong to the query. Its file `query.json` is compared, so that differences can be shown, and its
manifest must fit the program.
"""

from __future__ import annotations

import difflib
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from penstock.checkpoint.manifest import file_name
from penstock.checkpoint.store import Checkpoint
from penstock.connectors.source import Reader
from penstock.engine.driver.commit import nothing_yet
from penstock.engine.driver.gathering import fits
from penstock.engine.driver.grids import first_directory
from penstock.engine.driver.move_state import rescaled
from penstock.engine.driver.outputs import Outputs
from penstock.errors import CheckpointError, CorruptCheckpointError
from penstock.events import Event, RunRecovered
from penstock.operators.protocol import ProbingOperator
from penstock.plan.compile.subqueries import Query
from penstock.plan.explain.plan import explain
from penstock.plan.fingerprint import describe, fingerprint
from penstock.plan.logical import Source
from penstock.plan.program import Program, Subquery
from penstock.settings import Settings
from penstock.state.model import Manifest, SiteState, SourceState, Totals
from penstock.storage.durable import read_plain, write_new
from penstock.storage.faults import FaultPoint, reach

QUERY_FILE = "query.json"
QUERY_FORMAT = 1
_MOST_LINES = 20
_MOST_BYTES = 16 << 20


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
    query: Query, checkpoint: Checkpoint, settings: Settings, emit: Callable[[Event], None] = ignore
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
            emit(RunRecovered(found.epoch, manifest.subqueries != found.subqueries))
        _publish(checkpoint, outputs, manifest)
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


def _publish(checkpoint: Checkpoint, outputs: Outputs, manifest: Manifest) -> None:
    """Publish what a manifest names, and remove files of uncommitted epochs."""
    outputs.prepare(manifest)
    outputs.publish(manifest)
    checkpoint.collect((*outputs.staging().values(), *outputs.left_staging(manifest)), recovering=True)
    reach(FaultPoint.RECOVERED)


@dataclass(frozen=True)
class QueryFile:
    """The content of `query.json`: the plan as `explain` shows it, and all that the fingerprint of the query covers. A
    file without `format` is the first one."""

    plan: list[str]
    query: Any
    options: Any
    format: int = QUERY_FORMAT


def describe_query(root: Path, query: Query) -> None:
    """Write the description of the query of a new checkpoint."""
    path = root / QUERY_FILE
    path.unlink(missing_ok=True)
    write_new(path, msgspec.json.format(msgspec.json.encode(_described(query)), indent=2))


def another_query(root: Path, query: Query) -> CheckpointError:
    """Return the error for a checkpoint that belongs to another query, with the difference line by line."""
    found = _read(root / QUERY_FILE)
    differs = f"{root / QUERY_FILE} says which" if found is None else difference(found, _described(query))
    return CheckpointError(
        "this checkpoint belongs to another query",
        detail=f"{differs}\n  checkpoint {root}",
        hint="use another checkpoint for this query, run the query that the checkpoint belongs to, "
        "or start over with `penstock run --fresh`",
    )


def difference(before: QueryFile, now: QueryFile) -> str:
    """Return the lines of the plan that differ, "-" for the query of the checkpoint, "+" for this one; if the plans are
    equal, the lines of the whole description."""
    lines = _differing(before.plan, now.plan) or _differing(_lines(before), _lines(now))
    left = len(lines) - _MOST_LINES
    more = [f"  ... and {left} more lines"] if left > 0 else []
    return "\n".join(["- is the query of the checkpoint, + this one", *lines[:_MOST_LINES], *more])


def _differing(before: Sequence[str], now: Sequence[str]) -> list[str]:
    return [f"  {line.rstrip()}" for line in difflib.ndiff(before, now) if line[0] in "-+"]


def _lines(file: QueryFile) -> list[str]:
    text = msgspec.json.format(msgspec.json.encode([file.query, file.options], order="sorted"), indent=1).decode()
    return [line.strip() for line in text.splitlines()]


def _described(query: Query) -> QueryFile:
    return QueryFile(explain(query).splitlines(), describe(query.sink), describe(query.options))


def _read(path: Path) -> QueryFile | None:
    """Return the content of the file; None if it cannot be read, or has another format: it is informative only."""
    try:
        found = msgspec.json.decode(read_plain(path, _MOST_BYTES), type=QueryFile)
    except (OSError, ValueError, RecursionError):
        return None
    return found if found.format == QUERY_FORMAT else None


def refuse_unfit(manifest: Manifest, program: Program, outputs: Collection[str]) -> None:
    """Raise an error if a manifest has the fingerprint of the query but does not fit its program."""
    for why in _misfits(manifest, program, outputs):
        raise CorruptCheckpointError(
            f"the manifest {file_name(manifest.epoch)} of the checkpoint does not fit the query",
            detail=why,
            hint="restore the file from a backup, or start again with a new checkpoint",
        )


def _misfits(manifest: Manifest, program: Program, outputs: Collection[str]) -> Iterator[str]:
    """Yield every way in which the manifest does not fit."""
    yield from _counted("sources", len(manifest.sources), len(program.inputs))
    yield from _counted("stateful operators", len(manifest.subqueries), len(program.subqueries))
    if set(manifest.folders) != set(outputs):
        yield f"it has the outputs {', '.join(sorted(manifest.folders))}, the query has {', '.join(sorted(outputs))}"
    for subquery, state in zip(program.subqueries, manifest.subqueries, strict=True):
        for site in state.sites:
            yield from _site_misfits(site, subquery)


def _site_misfits(site: SiteState, subquery: Subquery) -> Iterator[str]:
    ports, tracks = subquery.operator.ports, subquery.operator.tracks
    for piece in site.all_slices():
        if piece.run.port >= ports:
            yield f"{piece.run.name} belongs to input {piece.run.port}, but the number of inputs is {ports}"
    for part in site.marks:
        yield from _counted("marks of a range of hashes", len(part.marks), tracks)
    if site.pending and not isinstance(subquery.operator, ProbingOperator):
        yield "rows are pending at an operator that has no pending rows"
    if site.held and not subquery.ordered:
        yield "rows are held back, but the query does not order them"


def _counted(what: str, found: int, wanted: int) -> Iterator[str]:
    if found != wanted:
        yield f"{what}: it has {found}, the query has {wanted}"
