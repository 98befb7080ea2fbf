"""JSON lines: one object a line; a missing key is null, keys that no column has are ignored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.connectors.files.format import Part
from penstock.connectors.files.json.members import members
from penstock.connectors.files.json.presence import require_keys
from penstock.connectors.files.json.query import only_objects, structure_of
from penstock.connectors.files.json.values import json_column
from penstock.connectors.files.layout import ByteLayout
from penstock.connectors.files.listing import FileId, identify
from penstock.connectors.files.text_lines import Lines, read_block, report, split_lines, text_begin, text_layout
from penstock.connectors.files.typed_lines import TypedColumn, first_reason, typed_rows
from penstock.connectors.source import ReadResult
from penstock.errors import SourceError
from penstock.types import TIMESTAMP

_SAMPLE = 1 << 20
_MOST_FIELDS = 200  # an object of more keys is most likely a map, with other keys in other rows
_INFERRED = dict.fromkeys(("UBIGINT", "BIGINT", "HUGEINT"), pa.int64()) | {
    "BOOLEAN": pa.bool_(),
    "DOUBLE": pa.float64(),
}


@dataclass(frozen=True)
class JsonFormat:
    """A position is an offset in bytes of the text. `lenient`: a column may be missing in all rows of a file."""

    lenient: bool = False

    @property
    def name(self) -> str:
        return "json"

    def discover(self, path: str) -> pa.Schema:
        begin = text_begin(path)
        block = read_block(Part(identify(path), begin, begin + _SAMPLE), begin)
        return inferred_schema(only_objects(split_lines(block.data)[0])[0].text, path)

    def check(self, file: FileId, schema: pa.Schema) -> None:
        if not self.lenient:
            require_keys(file.path, text_begin(file.path), schema)

    def layout(self, file: FileId) -> ByteLayout:
        return text_layout(file, text_begin(file.path))

    def read(self, part: Part, schema: pa.Schema, time: str) -> ReadResult:
        block = read_block(part, text_begin(part.file.path))
        lines, not_utf8 = split_lines(block.data)
        lines, no_objects = only_objects(lines)
        rows, malformed = typed_rows(lines, _columns(lines, schema), schema, time)
        return ReadResult(rows, report(part, block, [not_utf8, no_objects, malformed]))


def _columns(lines: Lines, schema: pa.Schema) -> list[TypedColumn]:
    columns = []
    for field, member in zip(schema, members(lines.text, schema.names), strict=True):
        column = json_column(field.name, member.values, field.type)
        columns.append(TypedColumn(column.values, first_reason([member.why, column.why])))
    return columns


def inferred_schema(objects: pa.Array, path: str) -> pa.Schema:
    """The columns of JSON objects: a key that is a string, always null, or now this and now that is a VARCHAR."""
    structure = structure_of(objects)
    if "" in structure:
        raise SourceError(
            f"`{path}` has a key without a name",
            detail="a column needs a name, and a row has the key ``",
            hint="declare the columns to read: keys that no column has are then left out",
        )
    return _with_times(objects, pa.schema([(name, _type(kind)) for name, kind in structure.items()]))


def _type(kind: Any) -> pa.DataType:
    match kind:
        case [element]:
            return pa.list_(_type(element))
        case dict() if 0 < len(kind) <= _MOST_FIELDS and _are_names(list(kind)):
            return pa.struct([(name, _type(below)) for name, below in kind.items()])
        case str():
            return _INFERRED.get(kind, pa.string())
    return pa.string()


def _are_names(keys: list[str]) -> bool:
    """Tell whether keys can be the fields of one struct: names that differ in more than case."""
    return all(keys) and len({key.lower() for key in keys}) == len(keys)


def _with_times(objects: pa.Array, found: pa.Schema) -> pa.Schema:
    """Texts that are all times, or all dates, are columns of that type."""
    texts = [field.name for field in found if pa.types.is_string(field.type)]
    for name, member in zip(texts, members(objects, texts), strict=True):
        if member.values.null_count < len(member.values):
            for type_ in (pa.date32(), TIMESTAMP):
                if json_column(name, member.values, type_).why is None:
                    found = found.set(found.get_field_index(name), pa.field(name, type_))
                    break
    return found
