"""A sink that prints rows on the terminal, as one table per epoch."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.arrow import Compression, ResultFormat
from penstock.connectors.sinks.sink import CollectedSink
from penstock.shown import python_rows
from penstock.state.model import Staged

_DIGITS = 6
_SMALL, _LARGE = 1e-4, 1e15  # beyond these a number has an exponent


@dataclass(frozen=True)
class TerminalSink:
    """Prints at most `rows` rows of an epoch and the number of further rows. At-least-once across restarts."""

    rows: int = 20
    kind: str = "terminal"
    extension: ResultFormat = "arrow"
    compression: Compression = "none"

    def identity(self) -> dict[str, Any]:
        return {}

    def staging(self, checkpoint: Path, output: str) -> Path:
        return self._collected.staging(checkpoint, output)

    def check(self, checkpoint: Path, output: str, query_id: str | None) -> None:
        self._collected.check(checkpoint, output, query_id)

    def prepare(self, checkpoint: Path, output: str) -> None:
        self._collected.prepare(checkpoint, output)

    def newest(self, checkpoint: Path, output: str) -> int:
        return self._collected.newest(checkpoint, output)

    def is_published(self, checkpoint: Path, output: str, file: Staged) -> bool:
        return self._collected.is_published(checkpoint, output, file)

    def publish(self, checkpoint: Path, output: str, epoch: int, staged: Sequence[Staged]) -> None:
        self._collected.publish(checkpoint, output, epoch, staged)

    @property
    def _collected(self) -> CollectedSink:
        return CollectedSink(self.kind, self._print)

    def _print(self, epoch: int, rows: pa.Table) -> None:
        print_rows(Console(), rows, f"epoch {epoch}", self.rows)


def print_rows(console: Console, rows: pa.Table, title: str, most: int) -> None:
    """Print the first `most` rows as a table, with a title above it unless that is empty, and how many rows follow."""
    if title:
        console.print(Text(title, "italic"))
    console.print(_table(rows.slice(0, most)))
    if rows.num_rows > most:
        console.print(Text(f"and {rows.num_rows - most:,} more rows", "dim italic"))


def _table(rows: pa.Table) -> Table:
    table = Table()
    for field in rows.schema:
        numeric = pa.types.is_integer(field.type) or pa.types.is_floating(field.type) or pa.types.is_decimal(field.type)
        table.add_column(field.name, justify="right" if numeric else "left")
    found = python_rows(rows)
    formats = [_float_format([row[name] for row in found]) for name in rows.column_names]
    for row in found:
        table.add_row(*map(_cell, row.values(), formats))
    return table


def _cell(value: object, of_floats: str) -> str:
    match value:
        case None:
            return "-"
        case float():
            return format(value, of_floats)
        case dict() | list():
            return json.dumps(value, default=str, ensure_ascii=False)
    return str(value)


def _float_format(column: Sequence[object]) -> str:
    """Return how the floats of a column are written: all with as many decimals as one of them needs to show six digits;
    each by itself, with an exponent where it needs one, if one is very large or very small."""
    floats = [value for value in column if isinstance(value, float) and math.isfinite(value)]
    if any(value and not _SMALL <= abs(value) < _LARGE for value in floats):
        return f",.{_DIGITS}g"
    return f",.{max(map(_decimals, floats), default=0)}f"


def _decimals(value: float) -> int:
    """Return how many decimals a float needs to show its digits, without zeros at the end."""
    shown = f"{value:.{_DIGITS}g}"
    return 0 if "e" in shown else len(shown.partition(".")[2])
