"""The file `query.json` of a checkpoint: what its query is, so that another one can be told apart in words."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from penstock.errors import CheckpointError
from penstock.plan.compile.subqueries import Query
from penstock.plan.explain.plan import explain
from penstock.plan.fingerprint import describe
from penstock.storage.durable import write_new
from penstock.storage.plain_file import read_plain

NAME = "query.json"
_MOST_LINES = 20
_MOST_BYTES = 16 << 20


@dataclass(frozen=True)
class QueryFile:
    """The plan as `explain` shows it, and all that the fingerprint of the query covers."""

    plan: list[str]
    query: Any
    options: Any


def describe_query(root: Path, query: Query) -> None:
    """Write what the query of a new checkpoint is."""
    path = root / NAME
    path.unlink(missing_ok=True)
    write_new(path, msgspec.json.format(msgspec.json.encode(_described(query)), indent=2))


def another_query(root: Path, query: Query) -> CheckpointError:
    """The error for a checkpoint that belongs to another query: the difference, line by line."""
    found = _read(root / NAME)
    differs = f"{root / NAME} says which" if found is None else difference(found, _described(query))
    return CheckpointError(
        "this checkpoint belongs to another query",
        detail=f"{differs}\n  checkpoint {root}",
        hint="give this query a checkpoint of its own, run the query that the checkpoint belongs to, "
        "or begin anew with `penstock run --fresh`",
    )


def difference(before: QueryFile, now: QueryFile) -> str:
    """The lines of the plan that differ, - as it was, + as it is now; where the plans read alike, those of all that
    makes the query."""
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
    """What the file says; None where it cannot be read: it is for people, and nothing depends on it."""
    try:
        return msgspec.json.decode(read_plain(path, _MOST_BYTES), type=QueryFile)
    except (OSError, ValueError, RecursionError):
        return None
