"""The input of the workloads: Parquet files, the same rows for the same parameters, written once and reused.

A stream has ten files of equal size; each covers 30 s of event time, and rows are in time order. With a disorder, the
rows of a file are out of order by less than that; below the slack of 2 s no row is late for anyone.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.errors import ConfigError
from penstock.types import time_values
from penstock_bench.rows.stream import FILES, SECOND, START, BenchStream
from penstock_bench.rows.streams import stream_named
from penstock_bench.workload import SLACK_SECONDS

ROW_GROUPS = 8  # several row groups, so that systems which split files can read one with all cores
_VERSION = 2  # of the generators: another one makes data that is there be written again


@dataclass(frozen=True)
class DataMarker:
    """What the files of a stream hold. Invariant: it is written after all of them, so then they are complete."""

    version: int
    rows: int
    disorder: float


def ensure_data(folder: Path, rows: int, streams: tuple[str, ...] = ("a",), disorder: float = 0.0) -> Path:
    """`folder`, holding `rows` rows of each stream; a stream is written unless its marker says that it is there."""
    drawn = [stream_named(name) for name in streams]
    _refuse_impossible(rows, disorder)
    wanted = msgspec.json.encode(DataMarker(_VERSION, rows, disorder))
    for stream in drawn:
        marker = marker_of(folder, stream.name)
        if not marker.exists() or marker.read_bytes() != wanted:
            marker.unlink(missing_ok=True)
            _write_stream(folder / stream.name, stream, rows, disorder)
            marker.write_bytes(wanted)
    return folder


def marker_of(folder: Path, stream: str) -> Path:
    """Beside the folder of the files, which has nothing but rows in it."""
    return folder / f"{stream}.json"


def file_rows(stream: BenchStream, rows: int, file: int, disorder: float = 0.0) -> pa.Table:
    """The rows of one file, each up to `disorder` seconds behind one before it; they depend on the arguments only."""
    table = stream.rows(rows, file)
    if not disorder:
        return table
    delays = np.random.default_rng([stream.seed, file, FILES]).uniform(0.0, disorder * SECOND, table.num_rows)
    return table.take(np.argsort(time_values(table[stream.time]) + delays, kind="stable"))


def _refuse_impossible(rows: int, disorder: float) -> None:
    if rows < FILES:
        raise ConfigError(f"a benchmark needs at least {FILES} rows", detail=f"{rows} asked for")
    if not 0 <= disorder < SLACK_SECONDS:
        raise ConfigError(
            f"the disorder of a benchmark must be below its slack of {SLACK_SECONDS} s",
            detail=f"{disorder} s asked for; rows further behind are late, and systems differ in what they do then",
        )


def _write_stream(folder: Path, stream: BenchStream, rows: int, disorder: float) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.parquet"):
        old.unlink()
    for file in range(FILES):
        path = folder / f"{file:02d}.parquet"
        table = file_rows(stream, rows, file, disorder)
        pq.write_table(table, path, row_group_size=max(1, -(-table.num_rows // ROW_GROUPS)))
        # Spark reads files in the order of their modification times: make that the order of event time.
        os.utime(path, (START // SECOND + file, START // SECOND + file))
