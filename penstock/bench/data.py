"""The input of the workloads: Parquet files, the same bytes of data for the same parameters, written once and reused.

A stream has ten files of equal size; each covers 30 s of event time. Rows are out of order by less than the slack of
2 s, also across files, so no row is late for a system that reads the files in order with a watermark delay of 2 s.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.bench.workloads import SLACK_SECONDS
from penstock.errors import ConfigError, did_you_mean

FILES = 10
FILE_SECONDS = 30
ROW_GROUPS = 8  # several row groups, so that systems which split files can read one with all cores
MARKER = "data.json"

SCHEMA = pa.schema([("ts", pa.timestamp("us")), ("k", pa.int64()), ("v", pa.float64())])

_SECOND = 1_000_000
_START = 1_767_225_600 * _SECOND  # 2026-01-01; also a multiple of every window in use


@dataclass(frozen=True)
class StreamShape:
    """How the rows of a stream are drawn: keys are uniform in 0..keys-1."""

    name: str
    keys: int
    seed: int


STREAMS: dict[str, StreamShape] = {"a": StreamShape("a", keys=100_000, seed=1)}


@dataclass(frozen=True)
class DataMarker:
    """What a data folder holds. Invariant: it is written after all files, so a folder with a marker is complete."""

    version: int
    rows: int
    streams: tuple[StreamShape, ...]


def ensure_data(folder: Path, rows: int, streams: tuple[str, ...] = ("a",)) -> Path:
    """`folder`, holding `rows` rows of each stream; written unless its marker says that it is there already."""
    wanted = DataMarker(version=1, rows=rows, streams=tuple(_shape(name) for name in streams))
    if rows < FILES:
        raise ConfigError(f"a benchmark needs at least {FILES} rows", detail=f"{rows} asked for")
    marker = folder / MARKER
    if marker.exists() and marker.read_bytes() == msgspec.json.encode(wanted):
        return folder
    marker.unlink(missing_ok=True)
    for shape in wanted.streams:
        _write_stream(folder / shape.name, shape, rows)
    marker.write_bytes(msgspec.json.encode(wanted))
    return folder


def file_rows(shape: StreamShape, rows: int, file: int) -> pa.Table:
    """The rows of one file; they depend on the arguments only."""
    first, last = rows * file // FILES, rows * (file + 1) // FILES
    draw = np.random.default_rng([shape.seed, file])
    slack = SLACK_SECONDS * _SECOND
    arrival = _START + slack + np.arange(first, last) * (FILES * FILE_SECONDS * _SECOND) // rows
    ts = arrival - draw.integers(0, slack, last - first)
    k = draw.integers(0, shape.keys, last - first)
    v = draw.uniform(0.0, 100.0, last - first)
    return pa.table([pa.array(ts).cast(SCHEMA.field("ts").type), k, v], schema=SCHEMA)


def _shape(name: str) -> StreamShape:
    if name not in STREAMS:
        raise ConfigError(f"unknown benchmark stream `{name}`", hint=did_you_mean(name, STREAMS))
    return STREAMS[name]


def _write_stream(folder: Path, shape: StreamShape, rows: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.parquet"):
        old.unlink()
    for file in range(FILES):
        path = folder / f"{file:02d}.parquet"
        table = file_rows(shape, rows, file)
        pq.write_table(table, path, row_group_size=max(1, -(-table.num_rows // ROW_GROUPS)))
        # Spark reads files in the order of their modification times: make that the order of event time.
        os.utime(path, (_START // _SECOND + file, _START // _SECOND + file))
