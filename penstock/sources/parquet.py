"""Parquet files: a split is some neighbouring row groups, and only the columns asked for are read."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.errors import SourceError, did_you_mean
from penstock.schema import conform
from penstock.sources.bad_rows import divert_null_times
from penstock.sources.base import ReadResult
from penstock.sources.file_format import Part
from penstock.sources.layout import UnitLayout
from penstock.sources.listing import FileId


@dataclass(frozen=True)
class ParquetFormat:
    """A position is the number of a row group."""

    @property
    def name(self) -> str:
        return "parquet"

    def discover(self, path: str) -> pa.Schema:
        return pq.read_schema(path)

    def layout(self, file: FileId) -> UnitLayout:
        footer = pq.read_metadata(file.path)
        return UnitLayout(tuple(footer.row_group(i).num_rows for i in range(footer.num_row_groups)))

    def read(self, part: Part, schema: pa.Schema, time: str) -> ReadResult:
        path = part.file.path
        with pq.ParquetFile(path, pre_buffer=False) as file:
            require_columns(file.schema_arrow, schema, path)
            # Threads are for other tasks: Spark keeps every core busy with splits of its own.
            groups = list(range(part.start, part.end))
            table = file.read_row_groups(groups, columns=schema.names, use_threads=False)
            counts = [file.metadata.row_group(i).num_rows for i in range(part.start)]
        return divert_null_times(conform(table, schema, f"`{path}`"), time, path, lambda: sum(counts))


def require_columns(found: pa.Schema, wanted: pa.Schema, path: str) -> None:
    """Raise unless the file has every column that is wanted."""
    for name in wanted.names:
        if name not in found.names:
            raise SourceError(f"column `{name}` is missing in `{path}`", hint=did_you_mean(name, found.names))
