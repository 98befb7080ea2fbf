"""The fingerprint of a query: equal for equal queries, so that a checkpoint is never continued by another query.

It covers everything that determines the meaning of state and results: sources, schemas, expressions, windows, the sink.
It leaves out what may change between two starts: the number of sites, budgets, the master.
"""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any

import pyarrow as pa
import xxhash

from penstock.plan.logical import Sink

# Names of classes as fingerprints have them. A class that gets another name keeps its written one, so that its
# checkpoints stay those of the same query.
_WRITTEN = {"AssignWindows": "Windows", "EqualTimes": "Moments", "SplitRows": "Split"}


def describe(value: object) -> Any:
    """Return a value of a plan as plain JSON, with the written name of each node's class."""
    match value:
        case pa.Schema():
            return [[field.name, str(field.type)] for field in value]
        case tuple():
            return [describe(part) for part in value]
        case None | bool() | int() | float() | str():
            return value
    if hasattr(value, "identity"):
        return {"connector": value.kind, **value.identity()}  # type: ignore[attr-defined]
    if is_dataclass(value):
        return {"is": written_name(value)} | {f.name: describe(getattr(value, f.name)) for f in fields(value)}
    return {"is": written_name(value), "value": str(value)}


def written_name(value: object) -> str:
    """Return the name by which fingerprints know the class of a value."""
    name = type(value).__name__
    return _WRITTEN.get(name, name)


def fingerprint(sink: Sink, options: object = None) -> str:
    """Return the fingerprint of a query. The options it is compiled with are included, because they determine the form
    of its state."""
    canonical = json.dumps([describe(sink), describe(options)], sort_keys=True, separators=(",", ":"))
    return xxhash.xxh3_128_hexdigest(canonical.encode())
