"""Arrow's CSV parser as the CSV format uses it: one block, columns by place, an empty field is null, a quoted empty
field is an empty text."""

from __future__ import annotations

import csv

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv

from penstock.connectors.files.text_lines import BOM
from penstock.connectors.files.text_values import FALSE_TEXTS, TRUE_TEXTS
from penstock.errors import SourceError

_NEWLINE, _RETURN = 10, 13


def parse_csv(
    data: bytes,
    delimiter: str,
    width: int,
    types: dict[int, pa.DataType],
    wrong: list[arrow_csv.InvalidRow] | None = None,
) -> pa.Table:
    """The columns whose places `types` names (all, when it is empty), called "0", "1", ...

    A row must have `width` fields; others are collected in `wrong`, or are an error where that is None."""

    def skip(row: arrow_csv.InvalidRow) -> str:
        assert wrong is not None
        wrong.append(row)
        return "skip"

    return arrow_csv.read_csv(
        # The parser drops a byte order mark in front; one that is still there belongs to the data.
        pa.BufferReader(BOM + data if data.startswith(BOM) else data),
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


def one_row_a_line(data: bytes, rows: int) -> bool:
    """Whether `rows` is the number of lines that are not blank. The data has no lone carriage return, so a row takes
    at least one such line, and equal numbers mean that each took one."""
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    return rows == lines or rows == lines - _blank_lines(data)


def _blank_lines(data: bytes) -> int:
    octets = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(octets == _NEWLINE)
    lengths = np.diff(ends, prepend=-1) - 1
    only_return = (lengths == 1) & (octets[ends - 1] == _RETURN)
    return int(np.count_nonzero((lengths == 0) | only_return))


def has_lone_return(data: bytes) -> bool:
    """Whether a carriage return stands elsewhere than before a newline: the parser takes it for the end of a line."""
    return b"\r" in data and data.count(b"\r") != data.count(b"\r\n")


def first_line(data: bytes) -> bytes:
    """The first line that is not blank."""
    if data[:1] in (b"\r", b"\n"):
        data = data.lstrip(b"\r\n")
    end = data.find(b"\n")
    return data if end < 0 else data[:end]


def split_line(line: bytes, delimiter: str, path: str) -> list[str]:
    """The fields of one line."""
    try:
        return next(csv.reader([line.decode("utf-8").rstrip("\r\n")], delimiter=delimiter), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise SourceError(
            f"the first line of `{path}` cannot be read", detail=str(error), hint="CSV files are UTF-8 text"
        ) from error
