"""DuckDB's JSON parser over arrays of texts.

Arrow's own JSON reader would be slower, and a line `null` crashes it.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.connectors.files.text_lines import BadLines, Lines

_IS_OBJECT = "SELECT CASE WHEN json_valid(text) THEN json_type(text) = 'OBJECT' ELSE false END AS value FROM input"
_TRANSFORM = "SELECT json_transform(text, $structure) AS value FROM input"
_UNQUOTED = """SELECT CASE WHEN text[1] = '"' THEN text ->> '$' END AS value FROM input"""
_KEYS = "SELECT json_keys(text) AS value FROM input"
UNKNOWN = "JSON"
_DEEPEST = 120  # DuckDB fails, and closes the database, at 128
_STRUCTURE = "SELECT json_group_structure(text::JSON) AS value FROM input"


def only_objects(lines: Lines) -> tuple[Lines, BadLines]:
    """The lines that are JSON objects, and those that are not; lines of nothing but blanks are skipped."""
    lines = lines.where(np.asarray(pc.not_equal(pc.ascii_trim_whitespace(lines.text), "")))
    good = np.asarray(_ask(_IS_OBJECT, lines.text))
    return lines.where(good), BadLines.of(lines.where(~good), "the line is not a JSON object")


def members(objects: pa.Array, names: Sequence[str]) -> list[pa.Array]:
    """The members of these very names, as JSON texts; null where an object has none, or a null. The names differ in
    more than case."""
    found = transformed(objects, dict.fromkeys(names, "JSON"))
    return [pc.struct_field(found, [i]) for i in range(len(names))]


def transformed(texts: pa.Array, structure: object) -> pa.Array:
    """JSON texts as values of a structure, as `json_transform` has it; null where a text has another one."""
    return _ask(_TRANSFORM, texts, structure=json.dumps(structure))


def unquoted(texts: pa.Array) -> pa.Array:
    """What JSON strings say; null for all other JSON texts."""
    return _ask(_UNQUOTED, texts)


def keys_of(objects: pa.Array) -> pa.Array:
    """The keys of each object, in order."""
    return _ask(_KEYS, objects)


def structure_of(objects: pa.Array) -> dict[str, Any]:
    """The keys of all objects together, each with its type, or its structure where it is nested. The type is JSON where
    it is now this and now that, and for all keys of objects that may be deeper than DuckDB looks."""
    try:
        found = json.loads(_ask(_STRUCTURE, objects)[0].as_py() or "{}") if len(objects) else {}
    except duckdb.InternalError:
        _database.cache_clear()  # DuckDB serves nothing more on a database after such an error
        return _structure_of_deep(objects)
    return found if isinstance(found, dict) else {}


def _structure_of_deep(objects: pa.Array) -> dict[str, Any]:
    brackets = pc.add(pc.count_substring(objects, "{"), pc.count_substring(objects, "["))
    deep = pc.greater(brackets, _DEEPEST)
    found = structure_of(objects.filter(pc.invert(deep)))
    return found | dict.fromkeys(pc.unique(keys_of(objects.filter(deep)).flatten()).to_pylist(), UNKNOWN)


def _ask(query: str, texts: pa.Array, **parameters: str) -> pa.Array:
    """One of the fixed queries above, over texts; the answer has their order."""
    with _database(os.getpid()).cursor() as cursor:
        cursor.register("input", pa.table({"text": texts}))
        found = cursor.sql(query, params=parameters or None).to_arrow_table()
        return found.column("value").combine_chunks()


@functools.lru_cache(maxsize=1)
def _database(process: int) -> duckdb.DuckDBPyConnection:
    """One database a process (a connection does not survive a fork), of one thread: other tasks use the other cores."""
    return duckdb.connect(":memory:", config={"threads": 1})
