"""The rows that Flink reads and writes, as column files: values lie in a file as they lie in memory, so reading them
costs Flink less than any format that it brings along (`flink/ColumnTables.java` says the layout, and reads and writes
it).

Flink's event time has milliseconds, the streams have microseconds. So each time column is there twice: NAME, a
TIMESTAMP(3) rounded down, and NAME_us, a BIGINT. A result column called NAME_us becomes the time NAME again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.arrow import AnyArray, arrow_buffer, as_texts
from penstock.errors import ConfigError
from penstock_bench.workload import SLACK_SECONDS

VALUES, ENDS, COUNT = ".values", ".ends", "rows.count"
EXACT = "_us"  # the end of the name of a time column that has microseconds

_TYPES: dict[pa.DataType, str] = {
    pa.int64(): "BIGINT",
    pa.int32(): "INT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.timestamp("us"): "TIMESTAMP(3)",
}
_NUMBERS: dict[str, str] = {"BIGINT": "<i8", "INT": "<i4", "INTEGER": "<i4", "DOUBLE": "<f8", "TIMESTAMP": "<i8"}


def write_table(stream: Path, folder: Path, parts: int) -> None:
    """The Parquet files of `stream` as column files. Rows are dealt to the parts in turn, so all parts are in the
    order of the stream and advance together, as the partitions of a topic would."""
    rows = pa.concat_tables(pq.read_table(path) for path in sorted(stream.glob("*.parquet"))).combine_chunks()
    for part in range(parts):
        dealt = rows.take(np.arange(part, rows.num_rows, parts))
        _write_part(dealt, folder / str(part))


def _write_part(rows: pa.Table, folder: Path) -> None:
    folder.mkdir(parents=True)
    for name in rows.column_names:
        _write_column(rows[name].combine_chunks(), folder, name)
    (folder / COUNT).write_text(str(rows.num_rows))


def _write_column(column: AnyArray, folder: Path, name: str) -> None:
    values = folder / f"{name}{VALUES}"
    if column.null_count:
        raise ConfigError(f"column `{name}` has nulls", detail="column files for Flink cannot say them")
    if pa.types.is_string(column.type):
        lengths = pc.binary_length(as_texts(column)).to_numpy().astype(np.int64)
        np.cumsum(lengths).tofile(folder / f"{name}{ENDS}")
        values.write_bytes("".join(map(str, column.to_pylist())).encode())
        return
    column.view(pa.int64() if pa.types.is_timestamp(column.type) else column.type).to_numpy().tofile(values)
    if pa.types.is_timestamp(column.type):
        os.link(values, folder / f"{name}{EXACT}{VALUES}")


def create_table(name: str, schema: pa.Schema, time: str, folder: Path) -> str:
    """The Flink statement that makes the column files under `folder` a table with event time."""
    columns = ", ".join(f"`{column}` {kind}" for column, kind in _flink_columns(schema))
    mark = f"WATERMARK FOR `{time}` AS `{time}` - INTERVAL '{SLACK_SECONDS}' SECOND"
    return f"CREATE TABLE `{name}` ({columns}, {mark}) WITH ('connector' = 'columns', 'path' = '{folder}')"


def _flink_columns(schema: pa.Schema) -> Iterator[tuple[str, str]]:
    for field in schema:
        if field.type not in _TYPES:
            raise ConfigError(f"column `{field.name}` cannot be given to Flink", detail=f"its type is {field.type}")
        yield field.name, _TYPES[field.type]
        if pa.types.is_timestamp(field.type):
            yield f"{field.name}{EXACT}", "BIGINT"


def read_table(folder: Path, columns: Sequence[tuple[str, str]]) -> pa.Table:
    """What Flink has written under `folder`; `columns` are the names and Flink types of the result."""
    parts = [_read_part(part, columns) for part in sorted(folder.iterdir())]
    return pa.concat_tables(parts)


def _read_part(folder: Path, columns: Sequence[tuple[str, str]]) -> pa.Table:
    read = {name.removesuffix(EXACT): _read_column(folder, name, kind) for name, kind in columns}
    table, count = pa.table(read), int((folder / COUNT).read_text())
    if table.num_rows != count:
        raise ConfigError("Flink's result is not whole", detail=f"{table.num_rows} of {count} rows in {folder}")
    return table


def _read_column(folder: Path, name: str, kind: str) -> AnyArray:
    file, plain = folder / f"{name}{VALUES}", kind.partition("(")[0]
    if plain in ("VARCHAR", "CHAR", "STRING"):
        return _read_strings(file, folder / f"{name}{ENDS}")
    values: AnyArray = pa.array(np.fromfile(file, dtype=_NUMBERS[plain]))
    is_time = plain == "TIMESTAMP" or name.endswith(EXACT)
    return values.cast(pa.timestamp("us")) if is_time else values


def _read_strings(file: Path, ends: Path) -> AnyArray:
    offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.fromfile(ends, dtype="<i8")])
    buffers = [None, arrow_buffer(offsets), pa.py_buffer(file.read_bytes())]
    return pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers)
