"""A data folder made ready for Flink, once: its streams as column files, beside the folder and not in it."""

from __future__ import annotations

import shutil
from pathlib import Path

from penstock_bench.flink.columns import create_table, write_table
from penstock_bench.rows.data import marker_of
from penstock_bench.rows.streams import stream_named
from penstock_bench.workload import Workload


def ensure_input(data_dir: Path, streams: tuple[str, ...], parts: int) -> Path:
    """The folder with the streams in `parts` parts; a stream is written unless it is there, of the same data."""
    folder = folder_beside(data_dir) / f"{parts}-parts"
    for stream in streams:
        _ensure_stream(data_dir, stream, folder, parts)
    return folder


def _ensure_stream(data_dir: Path, stream: str, folder: Path, parts: int) -> None:
    wanted, marker = marker_of(data_dir, stream).read_bytes(), marker_of(folder, stream)
    if marker.exists() and marker.read_bytes() == wanted:
        return
    marker.unlink(missing_ok=True)
    shutil.rmtree(folder / stream, ignore_errors=True)
    write_table(data_dir / stream, folder / stream, parts)
    marker.write_bytes(wanted)  # last: a stream with a marker is whole


def folder_beside(data_dir: Path) -> Path:
    return data_dir.with_name(f"{data_dir.name}-flink")


def table_statements(workload: Workload, folder: Path) -> tuple[str, ...]:
    """The statements that make the streams of the workload tables of Flink."""
    streams = [stream_named(name) for name in workload.streams]
    return tuple(create_table(one.name, one.schema, one.time, folder / one.name) for one in streams)
