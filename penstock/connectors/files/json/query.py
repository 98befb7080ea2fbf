"""Query arrays of JSON texts with DuckDB's JSON parser.

Arrow's JSON reader is slower, and a line `null` crashes it.
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

from penstock.arrow import AnyArray, as_lists, as_texts
from penstock.connectors.files.text_lines import BadLines, Lines

_IS_OBJECT = "SELECT CASE WHEN json_valid(text) THEN json_type(text) = 'OBJECT' ELSE false END AS value FROM input"
_TRANSFORM = "SELECT json_transform(text, $structure) AS value FROM input"
_UNQUOTED = """SELECT CASE WHEN text[1] = '"' THEN text ->> '$' END AS value FROM input"""
_KEYS = "SELECT json_keys(text) AS value FROM input"
UNKNOWN = "JSON"
_DEEPEST = 120  # DuckDB fails and closes the database at 128
_STRUCTURE = "SELECT json_group_structure(text::JSON) AS value FROM input"


def only_objects(lines: Lines) -> tuple[Lines, BadLines]:
    """Return the lines that are JSON objects, and those that are not; lines with only whitespace are skipped."""
    lines = lines.where(np.asarray(pc.not_equal(pc.ascii_trim_whitespace(lines.text), pa.scalar(""))))
    good = np.asarray(_ask(_IS_OBJECT, lines.text))
    return lines.where(good), BadLines.of(lines.where(~good), "the line is not a JSON object")


def members(objects: AnyArray, names: Sequence[str]) -> list[AnyArray]:
    """Return the members with exactly these names as JSON texts; null if an object has none, or a null.

    Precondition: the names differ in more than case.
    """
    found = transformed(objects, dict.fromkeys(names, "JSON"))
    return [pc.struct_field(found, [i]) for i in range(len(names))]


def transformed(texts: AnyArray, structure: object) -> AnyArray:
    """Return JSON texts as values of a `json_transform` structure; null for texts of a different structure."""
    return _ask(_TRANSFORM, texts, structure=json.dumps(structure))


def unquoted(texts: AnyArray) -> AnyArray:
    """Return the content of JSON strings; null for all other JSON texts."""
    return _ask(_UNQUOTED, texts)


def keys_of(objects: AnyArray) -> AnyArray:
    """Return the keys of each object, in order."""
    return _ask(_KEYS, objects)


def structure_of(objects: AnyArray) -> dict[str, Any]:
    """Return the keys of all objects together, each with its type, or with its structure if nested.

    The type is JSON for keys of mixed types, and for all keys of objects that may be nested deeper than DuckDB
    supports.
    """
    try:
        found = json.loads(_ask(_STRUCTURE, objects)[0].as_py() or "{}") if len(objects) else {}
    except duckdb.InternalError:
        _database.cache_clear()  # DuckDB refuses all further queries on a database after an internal error
        return _structure_of_deep(objects)
    return found if isinstance(found, dict) else {}


def _structure_of_deep(objects: AnyArray) -> dict[str, Any]:
    """Return the structure, with objects of many brackets described by their top-level keys only."""
    texts = as_texts(objects)
    brackets = pc.add(pc.count_substring(texts, "{"), pc.count_substring(texts, "["))
    deep = pc.greater(brackets, pa.scalar(_DEEPEST))
    found = structure_of(objects.filter(pc.invert(deep)))
    keys = as_lists(keys_of(objects.filter(deep))).flatten().unique()
    return found | dict.fromkeys(map(str, keys.to_pylist()), UNKNOWN)


def _ask(query: str, texts: AnyArray, **parameters: str) -> AnyArray:
    """Run one of the fixed queries above over texts; the result is in their order."""
    with _database(os.getpid()).cursor() as cursor:
        cursor.register("input", pa.table({"text": texts}))
        found: pa.Table = cursor.sql(query, params=parameters or None).to_arrow_table()
        return found.column("value").combine_chunks()


@functools.lru_cache(maxsize=1)
def _database(process: int) -> duckdb.DuckDBPyConnection:
    """Return the database of this process (a connection does not survive a fork), with one thread: other tasks use the
    cores."""
    return duckdb.connect(":memory:", config={"threads": 1})
