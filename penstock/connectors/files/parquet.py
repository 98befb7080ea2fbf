"""Parquet files: a split is some neighbouring row groups, and only the columns asked for are read."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.connectors.bad_rows import divert_malformed
from penstock.connectors.files.format import Part, check_schema
from penstock.connectors.files.layout import UnitLayout
from penstock.connectors.files.listing import FileId, arrow_file
from penstock.connectors.source import ReadResult
from penstock.types import column_path, conform, place_of


@dataclass(frozen=True)
class ParquetFormat:
    """A position is the number of a row group. `lenient`: a file may lack columns, which are null."""

    lenient: bool = False

    @property
    def name(self) -> str:
        return "parquet"

    def discover(self, path: str) -> pa.Schema:
        return distinct_names(pq.read_schema(arrow_file(path)), path)

    def check(self, file: FileId, schema: pa.Schema) -> None:
        check_schema(pq.read_schema(arrow_file(file.path)), schema, file.path, self.lenient)

    def layout(self, file: FileId) -> UnitLayout:
        footer = pq.read_metadata(arrow_file(file.path))
        return UnitLayout(tuple(footer.row_group(i).num_rows for i in range(footer.num_row_groups)))

    def read(self, part: Part, schema: pa.Schema, time: str) -> ReadResult:
        path = part.file.path
        with pq.ParquetFile(arrow_file(path), pre_buffer=False) as file:
            paths = [_dotted(file.schema_arrow, name, path) for name in schema.names]
            # Threads are for other tasks: Spark keeps every core busy with splits of its own.
            groups = list(range(part.start, part.end))
            table = file.read_row_groups(groups, columns=[p for p in paths if p is not None], use_threads=False)
            counts = [file.metadata.row_group(i).num_rows for i in range(part.start)]
        return divert_malformed(
            conform(table, schema, f"`{path}`", lenient=self.lenient), time, path, lambda: sum(counts)
        )


def _dotted(found: pa.Schema, name: str, path: str) -> str | None:
    """What Parquet calls a column: the names of the fields that lead to it."""
    places = column_path(found, name, f"`{path}`")
    if places is None:
        return None
    names, fields = [], found
    for place in places:
        names.append(fields.field(place).name)
        fields = fields.field(place).type
    return ".".join(names)


def distinct_names(found: pa.Schema, path: str) -> pa.Schema:
    """The schema of a file, or an error where two columns have one name: nobody could tell which one is meant."""
    for name in found.names:
        place_of(name, found.names, f"`{path}`")
    return found
