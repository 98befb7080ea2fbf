"""Check that a checkpoint belongs to a query: by its file `query.json`, so that differences can be shown, and by its
manifest, which must fit the program."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from penstock.checkpoint.manifest import file_name
from penstock.errors import CheckpointError, CorruptCheckpointError
from penstock.operators.protocol import ProbingOperator
from penstock.plan.compile.subqueries import Query
from penstock.plan.explain.plan import explain
from penstock.plan.fingerprint import describe
from penstock.plan.program import Program, Subquery
from penstock.state.model import Manifest, SiteState
from penstock.storage.durable import read_plain, write_new

NAME = "query.json"
QUERY_FORMAT = 1
_MOST_LINES = 20
_MOST_BYTES = 16 << 20


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
    path = root / NAME
    path.unlink(missing_ok=True)
    write_new(path, msgspec.json.format(msgspec.json.encode(_described(query)), indent=2))


def another_query(root: Path, query: Query) -> CheckpointError:
    """Return the error for a checkpoint that belongs to another query, with the difference line by line."""
    found = _read(root / NAME)
    differs = f"{root / NAME} says which" if found is None else difference(found, _described(query))
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
