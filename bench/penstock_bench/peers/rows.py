"""The rows of the join: streams of D-Cape's generator, written once as Parquet files that every system reads."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow.parquet as pq

from penstock.connectors.generator.joinable import JoinableConnector
from penstock_bench.flink.columns import write_table
from penstock_bench.peers.scale import STREAMS, Scale
from penstock_bench.rows.stream import SECOND, START

RATE = 100_000.0  # rows of a stream in a second of event time
ROW_GROUPS = 4
PARTITIONS = 300
_VERSION = 1  # of what is written: another one makes rows that are there be written again


def stream(scale: Scale, number: int) -> JoinableConnector:
    """Return the generator of a stream. A range is all of its keys once, so a key has a copy in each range."""
    return JoinableConnector(
        number,
        rows=scale.rows,
        rate=RATE,
        tuple_range=scale.rows // scale.copies,
        partitions=PARTITIONS,
        payload=scale.payload,
        start=START,
    )


def prepared(folder: Path, scale: Scale) -> Path:
    """Return the folder with the streams as Parquet files, written unless they are there."""
    return _once(folder / "rows", _wanted(scale), lambda to: _write_streams(to, scale))


def columns_of(folder: Path, scale: Scale) -> Path:
    """Return the folder with the same streams as Flink reads them: as many parts as there are sites."""
    rows = prepared(folder, scale)
    return _once(folder / "columns", _wanted(scale), lambda to: _write_columns(rows, to, scale.sites))


def _wanted(scale: Scale) -> bytes:
    return msgspec.json.encode([_VERSION, scale.rows, scale.payload, scale.copies, scale.files, scale.sites])


def _once(folder: Path, wanted: bytes, write: Callable[[Path], None]) -> Path:
    """Return the folder, written unless its marker says that it has what is wanted. The marker is written last."""
    marker = folder.with_suffix(".json")
    if not marker.exists() or marker.read_bytes() != wanted:
        marker.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        write(folder)
        marker.write_bytes(wanted)
    return folder


def _write_streams(folder: Path, scale: Scale) -> None:
    for number, name in enumerate(STREAMS):
        (folder / name).mkdir(parents=True)
        for file in range(scale.files):
            _write_file(folder / name / f"{file:03d}.parquet", stream(scale, number), file, scale)


def _write_file(path: Path, rows: JoinableConnector, file: int, scale: Scale) -> None:
    first, last = (scale.rows * at // scale.files for at in (file, file + 1))
    size = max(1, (last - first) // ROW_GROUPS)
    pq.write_table(rows.generate(first, last), path, size, compression="none", use_dictionary=False)
    # Spark reads files in the order of their modification times: make that the order of event time.
    os.utime(path, (START // SECOND + file, START // SECOND + file))


def _write_columns(rows: Path, folder: Path, parts: int) -> None:
    for name in STREAMS:
        write_table(rows / name, folder / name, parts)
