"""CSV line by line, for blocks with malformed lines: the same parser and casts, but every line stands alone."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from penstock.connectors.files.csv.parser import parse_csv
from penstock.connectors.files.format import Part
from penstock.connectors.files.text_lines import BadLines, Block, Lines, report, split_lines
from penstock.connectors.files.typed_lines import TypedColumn, parsed_column, typed_rows
from penstock.connectors.source import ReadResult


def read_lines(
    part: Part, block: Block, delimiter: str, width: int, places: dict[str, int], schema: pa.Schema, time: str
) -> ReadResult:
    """The good rows of a block, in order, and its malformed lines."""
    lines, not_utf8 = split_lines(block.data)
    lines, unended = _whole_rows(lines, delimiter)
    lines, texts, miscounted = _fields(lines, delimiter, width, list(places.values()))
    named = dict(zip(places, texts, strict=True))
    columns = [_column(field, named.get(field.name), len(lines.text)) for field in schema]
    rows, malformed = typed_rows(lines, columns, schema, time)
    return ReadResult(rows, report(part, block, [not_utf8, unended, miscounted, malformed]))


def _whole_rows(lines: Lines, delimiter: str) -> tuple[Lines, BadLines]:
    """Sets aside the lines that the parser would not take for exactly one row."""
    whole = np.asarray(pc.match_substring_regex(lines.text, _row_pattern(delimiter)))
    reason = "a quoted field does not end on its line, or the line holds a carriage return"
    return lines.where(whole), BadLines.of(lines.where(~whole), reason)


def _row_pattern(delimiter: str) -> str:
    """Quotes count only at the start of a field; what follows the closing quote is plain, as the parser has it."""
    cut = re.escape(delimiter)
    plain = rf'(?:[^"{cut}\r][^{cut}\r]*)'
    field = rf'(?:{plain}|"(?:[^"\r]|"")*"{plain}?)?'
    return rf"^{field}(?:{cut}{field})*$"


def _fields(lines: Lines, delimiter: str, width: int, places: list[int]) -> tuple[Lines, list[pa.Array], BadLines]:
    """The lines that have `width` fields, with their texts; and the others."""
    if len(lines.text) == 0:
        return lines, [pa.array([], pa.string()) for _ in places], BadLines.of(lines, "")
    joined = pc.binary_join(pa.ListArray.from_arrays([0, len(lines.text)], lines.text), "\n")
    wrong: list[arrow_csv.InvalidRow] = []
    data = joined[0].as_buffer().to_pybytes()
    table = parse_csv(data, delimiter, width, dict.fromkeys(places, pa.string()), wrong)
    good = np.ones(len(lines.text), np.bool_)
    good[[row.number - 1 for row in wrong]] = False
    why = [f"{row.actual_columns} fields instead of {row.expected_columns}" for row in wrong]
    rest = lines.where(~good)
    columns = [table.column(str(place)).combine_chunks() for place in places]
    return lines.where(good), columns, BadLines(rest.ordinals, pa.array(why, pa.string()), rest.text)


def _column(field: pa.Field, texts: pa.Array | None, rows: int) -> TypedColumn:
    return TypedColumn(pa.nulls(rows, field.type)) if texts is None else parsed_column(field.name, texts, field.type)
