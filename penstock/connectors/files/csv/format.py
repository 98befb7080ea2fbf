"""The CSV format. A row is a line, so that a file can be cut at any line; a line that ends inside quotes is malformed.

Columns are found by the names of the header, or by position if there is none. Arrow's CSV reader reads a whole range at
once. If that fails, or rows and lines do not correspond, the lines are parsed one by one (`_read_lines`), by the same
parser and casts.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, replace
from typing import IO, Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from penstock.arrow import AnyArray, AnyField
from penstock.connectors.files.compressed import open_text
from penstock.connectors.files.format import FilePart, with_missing_hint
from penstock.connectors.files.layout import ByteLayout
from penstock.connectors.files.listing import FileId
from penstock.connectors.files.text_lines import (
    BOM,
    BadLines,
    Block,
    Lines,
    read_block,
    report,
    split_lines,
    text_begin,
    text_layout,
)
from penstock.connectors.files.text_values import FALSE_TEXTS, TRUE_TEXTS, try_cast, zoned
from penstock.connectors.files.typed_lines import TypedColumn, parsed_column, typed_rows
from penstock.connectors.source import ReadResult
from penstock.errors import SourceError
from penstock.type_names import is_nested, sql_type
from penstock.types import conform, missing_column, place_of

_SAMPLE = 1 << 20
_ZONED_TIME = pa.timestamp("us", "UTC")
_NEWLINE, _RETURN = 10, 13


@dataclass(frozen=True)
class CsvFormat:
    """CSV. A position is a byte offset in the text. `names` are the columns of files without a header.

    `lenient`: columns missing in a header are null.
    """

    delimiter: str = ","
    header: bool = True
    names: tuple[str, ...] = ()
    lenient: bool = False

    @property
    def name(self) -> str:
        return "csv"

    def named(self, schema: pa.Schema) -> CsvFormat:
        """Return the format for files of a declared schema: without a header, the schema names the columns in order."""
        return self if self.header else replace(self, names=tuple(schema.names))

    def discover(self, path: str) -> pa.Schema:
        names, begin = self._head(path)
        sample = _sample(path, begin)
        names = names or tuple(f"column{i}" for i in range(self._first_width(sample, path)))
        if not _first_line(sample):
            return pa.schema([(name, pa.string()) for name in names])
        found = _parse_csv(sample, self.delimiter, len(names), {}, []).schema.types
        return pa.schema([(name, _plain(type_)) for name, type_ in zip(names, found, strict=True)])

    def check(self, file: FileId, schema: pa.Schema) -> None:
        for field in schema:
            if is_nested(field.type):
                raise SourceError(
                    f"column `{field.name}` of `{file.path}` cannot be a {sql_type(field.type)}",
                    detail="a field of a CSV file is a text or a number",
                    hint="declare it VARCHAR, and parse JSON text with json_extract_string",
                )
        names = self._head(file.path)[0]
        if names and self.header:
            _places(names, schema, file.path, self.lenient)

    def layout(self, file: FileId) -> ByteLayout:
        return text_layout(file, self._head(file.path)[1])

    def read(self, part: FilePart, schema: pa.Schema, time: str) -> ReadResult:
        names, begin = self._head(part.file.path)
        places = _places(names, schema, part.file.path, self.lenient)
        block = read_block(part, begin)
        if not _first_line(block.data):
            return ReadResult(schema.empty_table())
        there = pa.schema([field for field in schema if field.name in places])
        rows = self._read_at_once(block.data, len(names), list(places.values()), there)
        if rows is not None and time in places and rows.column(time).null_count == 0:
            return ReadResult(conform(rows, schema, lenient=True))
        return _read_lines(part, block, self.delimiter, len(names), places, schema, time)

    def _head(self, path: str) -> tuple[tuple[str, ...], int]:
        """Return the column names, and the offset of the first row."""
        begin = text_begin(path)
        if not self.header:
            return self.names, begin
        with open_text(path) as file:
            file.seek(begin)
            line = file.readline()
            while line and not line.strip():
                line = file.readline()
            names = tuple(name.strip() for name in _split_line(line, self.delimiter, path))
            return names, file.tell()

    def _first_width(self, sample: bytes, path: str) -> int:
        """Return the number of fields of the first line."""
        return len(_split_line(_first_line(sample), self.delimiter, path))

    def _read_at_once(self, data: bytes, width: int, places: list[int], schema: pa.Schema) -> pa.Table | None:
        """Return the rows, or None if some line is not exactly one well-formed row."""
        if _has_lone_return(data):
            return None
        types = {place: _parsed_type(field.type) for place, field in zip(places, schema, strict=True)}
        try:
            zones = dict.fromkeys(self._zoned_places(data, width, types), _ZONED_TIME)
            found = _parse_csv(data, self.delimiter, width, types | zones)
        except pa.ArrowInvalid:
            return None
        if not _one_row_a_line(data, found.num_rows):
            return None
        columns = [try_cast(found.column(str(place)), field.type) for place, field in zip(places, schema, strict=True)]
        return None if any(column is None for column in columns) else pa.table(columns, schema=schema)

    def _zoned_places(self, data: bytes, width: int, types: dict[int, pa.DataType]) -> list[int]:
        """Return the time columns that end in Z or an offset on the first line: a guess, and a wrong one only costs
        time."""
        times = [place for place, type_ in types.items() if pa.types.is_timestamp(type_)]
        if not times:
            return []
        texts = _parse_csv(_first_line(data), self.delimiter, width, dict.fromkeys(times, pa.string()))
        return [place for place in times if pc.any(zoned(texts.column(str(place)).combine_chunks())).as_py()]


def _places(names: tuple[str, ...], schema: pa.Schema, path: str, lenient: bool) -> dict[str, int]:
    """Return the index of each column of the schema in a line; missing columns are left out if `lenient`, else an
    error."""
    where = f"`{path}`"
    places = {name: place_of(name, names, where) for name in schema.names}
    for name, place in places.items():
        if place is None and not lenient:
            raise with_missing_hint(missing_column(name, names, where))
    return {name: place for name, place in places.items() if place is not None}


def _parsed_type(type_: pa.DataType) -> pa.DataType:
    """Return the type to parse: decimals are parsed as text and cast, because the parser accepts too many digits."""
    return pa.string() if pa.types.is_decimal(type_) else type_


def _sample(path: str, begin: int) -> bytes:
    """Return complete lines from the beginning of the rows."""
    with open_text(path) as file:
        file.seek(begin)
        data = file.read(_SAMPLE)
        return data if data.endswith(b"\n") else data + file.readline()


def _plain(type_: pa.DataType) -> pa.DataType:
    """Return the inferred type, or text for types that only inference produces."""
    return pa.string() if pa.types.is_null(type_) or pa.types.is_time(type_) else type_


def _read_lines(
    part: FilePart, block: Block, delimiter: str, width: int, places: dict[str, int], schema: pa.Schema, time: str
) -> ReadResult:
    """Parse a block line by line; return the well-formed rows, in order, and the malformed lines."""
    lines, not_utf8 = split_lines(block.data)
    lines, unended = _whole_rows(lines, delimiter)
    lines, texts, miscounted = _fields(lines, delimiter, width, list(places.values()))
    named = dict(zip(places, texts, strict=True))
    columns = [_column(field, named.get(field.name), len(lines.text)) for field in schema]
    rows, malformed = typed_rows(lines, columns, schema, time)
    return ReadResult(rows, report(part, block, [not_utf8, unended, miscounted, malformed]))


def _whole_rows(lines: Lines, delimiter: str) -> tuple[Lines, BadLines]:
    """Separate the lines that the parser would not read as exactly one row."""
    whole = np.asarray(pc.match_substring_regex(lines.text, _row_pattern(delimiter)))
    reason = "a quoted field does not end on its line, or the line holds a carriage return"
    return lines.where(whole), BadLines.of(lines.where(~whole), reason)


def _row_pattern(delimiter: str) -> str:
    """Return the regular expression of one row, with the parser's rules: quotes count only at the start of a field, and
    text after the closing quote is plain."""
    cut = re.escape(delimiter)
    plain = rf'(?:[^"{cut}\r][^{cut}\r]*)'
    field = rf'(?:{plain}|"(?:[^"\r]|"")*"{plain}?)?'
    return rf"^{field}(?:{cut}{field})*$"


def _fields(lines: Lines, delimiter: str, width: int, places: list[int]) -> tuple[Lines, list[AnyArray], BadLines]:
    """Return the lines with `width` fields, the texts of their columns `places`, and the other lines."""
    if len(lines.text) == 0:
        return lines, [pa.array([], pa.string()) for _ in places], BadLines.of(lines, "")
    joined = cast(pa.StringArray, pc.binary_join(pa.ListArray.from_arrays([0, len(lines.text)], lines.text), "\n"))
    wrong: list[arrow_csv.InvalidRow] = []
    data = joined[0].as_buffer().to_pybytes()
    table = _parse_csv(data, delimiter, width, dict.fromkeys(places, pa.string()), wrong)
    good = np.ones(len(lines.text), np.bool_)
    good[[row.number - 1 for row in wrong if row.number]] = False
    why = [f"{row.actual_columns} fields instead of {row.expected_columns}" for row in wrong]
    rest = lines.where(~good)
    columns = [table.column(str(place)).combine_chunks() for place in places]
    return lines.where(good), columns, BadLines(rest.ordinals, pa.array(why, pa.string()), rest.text)


def _column(field: AnyField, texts: AnyArray | None, rows: int) -> TypedColumn:
    return TypedColumn(pa.nulls(rows, field.type)) if texts is None else parsed_column(field.name, texts, field.type)


def _parse_csv(
    data: bytes,
    delimiter: str,
    width: int,
    types: dict[int, pa.DataType],
    wrong: list[arrow_csv.InvalidRow] | None = None,
) -> pa.Table:
    """Parse the columns whose indexes `types` has (all if it is empty), named "0", "1", ...

    A row must have `width` fields; other rows are appended to `wrong`, or are an error if that is None.
    """

    def skip(row: arrow_csv.InvalidRow) -> Literal["skip"]:
        assert wrong is not None
        wrong.append(row)
        return "skip"

    return arrow_csv.read_csv(
        # The parser drops a leading byte order mark; at this point it belongs to the data, so another one is added.
        cast(IO[bytes], pa.BufferReader(BOM + data if data.startswith(BOM) else data)),
        read_options=arrow_csv.ReadOptions(
            column_names=[str(i) for i in range(width)], use_threads=False, block_size=len(data) + len(BOM) + 1
        ),
        parse_options=arrow_csv.ParseOptions(delimiter=delimiter, invalid_row_handler=None if wrong is None else skip),
        convert_options=_conversion(types),
    )


def _conversion(types: dict[int, pa.DataType]) -> arrow_csv.ConvertOptions:
    return arrow_csv.ConvertOptions(
        column_types={str(place): type_ for place, type_ in types.items()},
        include_columns=[str(place) for place in types],
        null_values=[""],
        true_values=list(TRUE_TEXTS),
        false_values=list(FALSE_TEXTS),
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )


def _one_row_a_line(data: bytes, rows: int) -> bool:
    """Return whether `rows` equals the number of lines that are not blank.

    Precondition: the data has no lone carriage return. Then a row takes at least one such line, so equal numbers mean
    one row per line.
    """
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    return rows == lines or rows == lines - _blank_lines(data)


def _blank_lines(data: bytes) -> int:
    """Return the number of blank lines that end in a newline."""
    octets = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(octets == _NEWLINE)
    lengths = np.diff(ends, prepend=-1) - 1
    only_return = (lengths == 1) & (octets[ends - 1] == _RETURN)
    return int(np.count_nonzero((lengths == 0) | only_return))


def _has_lone_return(data: bytes) -> bool:
    """Return whether there is a carriage return not followed by a newline, which the parser takes for a line end."""
    return b"\r" in data and data.count(b"\r") != data.count(b"\r\n")


def _first_line(data: bytes) -> bytes:
    """Return the first line that is not blank."""
    if data[:1] in (b"\r", b"\n"):
        data = data.lstrip(b"\r\n")
    end = data.find(b"\n")
    return data if end < 0 else data[:end]


def _split_line(line: bytes, delimiter: str, path: str) -> list[str]:
    """Return the fields of one line."""
    try:
        return next(csv.reader([line.decode("utf-8").rstrip("\r\n")], delimiter=delimiter), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise SourceError(
            f"the first line of `{path}` cannot be read", detail=str(error), hint="CSV files are UTF-8 text"
        ) from error
