"""Tables as text: cells between bars, `null` for nulls, quotes around text that would be read as something else."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from penstock.arrow import AnyArray, AnyField
from tests.support.cases.text import CaseError

_CELL = re.compile(r"\s*('(?:[^']|'')*'|[^|]*?)\s*(\||$)")
_NEEDS_QUOTES = re.compile(r"(?i)null|nothing|split.*|epoch .*|end|'.*|.*[|\n].*|\s.*|.*\s|", re.DOTALL)


def cells(line: str) -> list[str | None]:
    """Parse the cells of a line."""
    found: list[str | None] = []
    for match in _CELL.finditer(line.strip()):
        found.append(_unquoted(match[1]))
        if not match[2]:
            break
    return found


def _unquoted(cell: str) -> str | None:
    if cell == "null":
        return None
    return cell[1:-1].replace("''", "'") if cell.startswith("'") and len(cell) > 1 else cell


def table_of(header: Sequence[str | None], rows: Sequence[Sequence[str | None]], schema: pa.Schema) -> pa.Table:
    """Parse rows of text into a table; columns that the header lacks are null."""
    unfit = [row for row in rows if len(row) != len(header)]
    if unfit or set(header) - set(schema.names):
        detail = f"the header is {header}, the columns are {schema.names}, and these rows do not fit: {unfit[:5]}"
        raise CaseError("a table of the input does not fit its header or the schema", detail=detail)
    columns = {name: [row[i] for row in rows] for i, name in enumerate(header)}
    missing = [None] * len(rows)
    return pa.table([_column(columns.get(f.name, missing), f) for f in schema], schema=schema)


def _column(values: Sequence[str | None], field: AnyField) -> AnyArray:
    try:
        return pa.array(values, pa.string()).cast(field.type)
    except pa.ArrowInvalid as error:
        raise CaseError(f"column `{field.name}` of the input cannot be read", detail=str(error)) from error


def table_text(table: pa.Table) -> str:
    """Format a table with a header and sorted rows; `nothing` if it has no rows."""
    if not table.num_rows:
        return "nothing"
    rows = sorted((tuple(row.values()) for row in table.to_pylist()), key=_order)
    return "\n".join(aligned([table.column_names, *([_cell(v) for v in row] for row in rows)]))


def _order(row: tuple[Any, ...]) -> list[tuple[int, Any]]:
    """Return a sort key with nulls last, and NaN just before them."""
    plain = [str(v) if isinstance(v, list) else v for v in row]
    return [(2, 0) if v is None else (1, 0) if isinstance(v, float) and math.isnan(v) else (0, v) for v in plain]


def _cell(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case float():
            return _double(value)
        case str():
            return "'" + value.replace("'", "''") + "'" if _NEEDS_QUOTES.fullmatch(value) else value
        case datetime():
            return value.isoformat(sep=" ")
        case list():
            return ", ".join(map(_missed, value))
    return str(value)


def _missed(entry: dict[str, Any]) -> str:
    """Format what a late row missed: the subquery and its windows."""
    who = "sink" if entry["subquery"] is None else f"subquery {entry['subquery']}"
    if entry["first_start"] is None:
        return who
    return f"{who} from {_cell(entry['first_start'])} to {_cell(entry['last_end'])}"


def _double(value: float) -> str:
    """Format a double with twelve digits, which hides differences caused by the order of additions."""
    written = f"{value + 0.0:.12g}"
    return f"{written}.0" if written.lstrip("-").isdigit() else written


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the rows as lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
