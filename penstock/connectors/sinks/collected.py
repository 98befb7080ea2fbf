"""Sinks that pass rows to the driver's process: in memory, to a Python callback, or to the terminal.

Rows are staged in the checkpoint and read back after the commit. A crash after the delivery and before its record
repeats the last epoch, so these sinks are at-least-once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.arrow import Compression, FileFormat
from penstock.errors import PenstockError, SinkError
from penstock.state.model import Staged
from penstock.storage.durable import make_private_folder
from penstock.user_code import told

Deliver = Callable[[int, pa.Table], None]


@dataclass(frozen=True)
class CollectedSink:
    """A sink that calls `deliver(epoch, rows)` once for each epoch with rows, in order of epochs."""

    kind: str
    deliver: Deliver = field(compare=False, repr=False)
    extension: FileFormat = "arrow"
    compression: Compression = "none"

    def identity(self) -> dict[str, Any]:
        return {}

    def staging(self, checkpoint: Path, output: str) -> Path:
        return checkpoint / output

    def check(self, checkpoint: Path, output: str, query_id: str | None) -> None:
        """Accept any place: the rows are in the checkpoint."""

    def prepare(self, checkpoint: Path, output: str) -> None:
        make_private_folder(self.staging(checkpoint, output))

    def newest(self, checkpoint: Path, output: str) -> int:
        return 0

    def is_published(self, checkpoint: Path, output: str, file: Staged) -> bool:
        """Return False: delivered files stay staged until they are garbage-collected."""
        return False

    def publish(self, checkpoint: Path, output: str, epoch: int, staged: Sequence[Staged]) -> None:
        folder = self.staging(checkpoint, output)
        if staged:
            self._hand_over(epoch, pa.concat_tables([_read(folder / file.name) for file in staged]))

    def _hand_over(self, epoch: int, rows: pa.Table) -> None:
        """Call the callback; wrap its errors in SinkError."""
        try:
            self.deliver(epoch, rows)
        except PenstockError:
            raise
        except Exception as error:
            raise SinkError(
                f"the callback `{_name(self.deliver)}` failed",
                detail=told(error),
                hint=f"fix it and restart the query: it then gets the {rows.num_rows} rows of epoch {epoch} again",
            ) from error


def _name(function: object) -> str:
    return getattr(function, "__qualname__", type(function).__name__)


def _read(path: Path) -> pa.Table:
    with pa.OSFile(str(path), "rb") as source:
        return pa.ipc.open_file(source).read_all()


class MemoryResults:
    """The rows of an in-memory sink, in order of delivery."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._tables: list[pa.Table] = []

    def deliver(self, epoch: int, rows: pa.Table) -> None:
        self._tables.append(rows)

    def table(self) -> pa.Table:
        return pa.concat_tables([self._schema.empty_table(), *self._tables])
