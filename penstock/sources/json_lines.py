"""JSON lines: one object a line; a missing key is null, keys that no column has are ignored.

DuckDB's parser takes the objects apart; Arrow's own JSON reader would also be slower, and a line `null` crashes it.
"""

from __future__ import annotations

import functools
import json
import os
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.schema import TIMESTAMP
from penstock.sources.base import ReadResult
from penstock.sources.file_format import Part
from penstock.sources.layout import ByteLayout
from penstock.sources.listing import FileId, identify
from penstock.sources.text_lines import BadLines, Lines, read_block, report, split_lines, text_begin, text_layout
from penstock.sources.text_values import parse
from penstock.sources.typed_lines import TextColumn, typed_rows

_SAMPLE = 1 << 20
_IS_OBJECT = "SELECT CASE WHEN json_valid(text) THEN json_type(text) = 'OBJECT' ELSE false END AS value FROM input"
_MEMBERS = "SELECT json_transform(text, $members) AS value FROM input"
_UNQUOTED = """SELECT CASE WHEN text[1] = '"' THEN text ->> '$' END AS value FROM input"""
_STRUCTURE = "SELECT json_group_structure(text::JSON) AS value FROM input"
_INFERRED = dict.fromkeys(("UBIGINT", "BIGINT", "HUGEINT"), pa.int64()) | {
    "BOOLEAN": pa.bool_(),
    "DOUBLE": pa.float64(),
}


@dataclass(frozen=True)
class JsonFormat:
    """A position is an offset in bytes."""

    @property
    def name(self) -> str:
        return "json"

    def discover(self, path: str) -> pa.Schema:
        file = identify(path)
        begin = text_begin(path)
        block = read_block(Part(file, begin, min(file.size, begin + _SAMPLE)), begin)
        lines, _ = _objects(split_lines(block.data)[0])
        structure = json.loads(_ask(_STRUCTURE, lines.text)[0].as_py() or "{}") if len(lines.text) else {}
        # A nested value has no column type yet, so its key is left out.
        flat = {name: kind for name, kind in structure.items() if isinstance(kind, str)}
        found = pa.schema([(name, _INFERRED.get(kind, pa.string())) for name, kind in flat.items() if kind != "NULL"])
        return _with_times(lines, found)

    def layout(self, file: FileId) -> ByteLayout:
        return text_layout(file, text_begin(file.path))

    def read(self, part: Part, schema: pa.Schema, time: str) -> ReadResult:
        block = read_block(part, text_begin(part.file.path))
        lines, not_utf8 = split_lines(block.data)
        lines, no_objects = _objects(lines)
        rows, malformed = typed_rows(lines, _columns(lines, schema), schema, time)
        return ReadResult(rows, report(part, block, [not_utf8, no_objects, malformed]))


def _objects(lines: Lines) -> tuple[Lines, BadLines]:
    """The lines that are JSON objects, and those that are not; lines of nothing but blanks are skipped."""
    lines = lines.where(np.asarray(pc.not_equal(pc.ascii_trim_whitespace(lines.text), "")))
    good = np.asarray(_ask(_IS_OBJECT, lines.text))
    return lines.where(good), BadLines.of(lines.where(~good), "the line is not a JSON object")


def _columns(lines: Lines, schema: pa.Schema) -> list[TextColumn]:
    if len(lines.text) == 0:
        return [_column(pa.array([], pa.string()), field.type) for field in schema]
    members = json.dumps(dict.fromkeys(schema.names, "JSON"))
    found = _ask(_MEMBERS, lines.text, members=members)
    return [_column(pc.struct_field(found, [i]), field.type) for i, field in enumerate(schema)]


def _column(values: pa.Array, type_: pa.DataType) -> TextColumn:
    """Texts of JSON values as the column's type wants them. A decimal may be a number or a text."""
    there = np.asarray(pc.is_valid(values))
    if pa.types.is_boolean(type_):
        return TextColumn(values, there & ~_among(values, ["true", "false"]))
    if pa.types.is_integer(type_) or pa.types.is_floating(type_):
        return TextColumn(values, np.zeros(len(values), np.bool_))
    texts = _ask(_UNQUOTED, values)
    if pa.types.is_decimal(type_):
        return TextColumn(pc.coalesce(texts, values), np.zeros(len(values), np.bool_))
    misfit = there & np.asarray(pc.is_null(texts))
    return TextColumn(pc.if_else(pa.array(misfit), values, texts), misfit)


def _among(values: pa.Array, texts: list[str]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.asarray(pc.is_in(values, pa.array(texts)))


def _with_times(lines: Lines, found: pa.Schema) -> pa.Schema:
    """Texts that are all times, or all dates, are columns of that type."""
    for i, (field, column) in enumerate(zip(found, _columns(lines, found), strict=True)):
        if pa.types.is_string(field.type) and column.texts.null_count < len(column.texts):
            for type_ in (pa.date32(), TIMESTAMP):
                if not (column.misfit | parse(column.texts, type_)[1]).any():
                    found = found.set(i, pa.field(field.name, type_))
                    break
    return found


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
