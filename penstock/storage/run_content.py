"""Checks of the content of a run file. The checksum protects the bytes; these checks protect against bytes that never
were a run.

A file may match the checksum in a manifest if both were written by whoever damaged it. Arrow trusts the offsets in a
file, so reading one with wrong offsets can crash the process.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.state.hash_ranges import Hashes
from penstock.state.runs import HASH, TIME, RunFile

BLOCK = 1 << 15  # hashes that are compared at once: they and the result stay in the cache of the core
_FIRST_COLUMNS = pa.schema([(HASH, pa.uint64()), (TIME, pa.int64())])


def wrong_rows(run: RunFile, rows: pa.Table) -> str | None:
    """Return why a table cannot be some of the rows of a run; None if it can."""
    try:
        rows.validate(full=True)
    except pa.ArrowInvalid as error:
        return str(error)
    times = pc.min_max(rows.column(TIME))
    found = times["min"].as_py(), times["max"].as_py()
    if rows.num_rows and not run.min_time <= found[0] <= found[1] <= run.max_time:
        return f"its times are from {found[0]} to {found[1]}, but the manifest says {run.min_time} to {run.max_time}"
    return None


def wrong_form(rows: pa.Table) -> str | None:
    """Return what is wrong with the columns that every run begins with; None if they are right."""
    if [*rows.schema][:2] != [*_FIRST_COLUMNS]:
        return f"it does not begin with the columns {HASH} and {TIME}"
    first = [rows.column(place) for place in range(2)]
    if any(column.num_chunks != 1 or column.null_count for column in first):
        return "its hashes and times are not each in one chunk without nulls"
    try:
        for column in first:
            column.validate()
    except pa.ArrowInvalid as error:
        return str(error)
    return None


def is_sorted(hashes: Hashes) -> bool:
    """Return whether hashes are in ascending order."""
    lower, upper = hashes[:-1], hashes[1:]
    blocks = (slice(at, at + BLOCK) for at in range(0, len(lower), BLOCK))
    return all(bool(np.all(lower[block] <= upper[block])) for block in blocks)
