"""JSON lines: one object a line; a missing key is null, keys that no column has are ignored."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.connectors.files.format import Part
from penstock.connectors.files.json.inference import inferred_schema
from penstock.connectors.files.json.members import members
from penstock.connectors.files.json.presence import require_keys
from penstock.connectors.files.json.query import only_objects
from penstock.connectors.files.json.values import json_column
from penstock.connectors.files.layout import ByteLayout
from penstock.connectors.files.listing import FileId, identify
from penstock.connectors.files.text_lines import Lines, read_block, report, split_lines, text_begin, text_layout
from penstock.connectors.files.typed_lines import TypedColumn, first_reason, typed_rows
from penstock.connectors.source import ReadResult

_SAMPLE = 1 << 20


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
