"""A sink that prints rows on the terminal, as one table per epoch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from penstock.arrow import Compression, ResultFormat
from penstock.connectors.sinks.sink import CollectedSink
from penstock.shown import python_rows
from penstock.state.model import Staged


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
        Console().print(rows_as_table(rows, f"epoch {epoch}", self.rows))


def rows_as_table(rows: pa.Table, title: str | None, most: int) -> Table:
    """Return a rich table of the first `most` rows."""
    table = Table(title=title, title_justify="left", caption_justify="left")
    for field in rows.schema:
        numeric = pa.types.is_integer(field.type) or pa.types.is_floating(field.type) or pa.types.is_decimal(field.type)
        table.add_column(field.name, justify="right" if numeric else "left")
    for row in python_rows(rows.slice(0, most)):
        table.add_row(*(_cell(value) for value in row.values()))
    if rows.num_rows > most:
        table.caption = f"and {rows.num_rows - most:,} more rows"
    return table


def _cell(value: object) -> str:
    match value:
        case None:
            return "-"
        case float():
            return f"{value:,.6g}"
        case dict() | list():
            return json.dumps(value, default=str, ensure_ascii=False)
    return str(value)
