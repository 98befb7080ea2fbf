"""Penstock as a system under measurement: SQL over files in, files out, as a user would run it."""

from __future__ import annotations

import time
from pathlib import Path

from penstock.api.run_options import RunOptions
from penstock.api.script import read_script
from penstock.api.write import Ready
from penstock.events import Event
from penstock_bench.profile.events import epoch_profiles
from penstock_bench.rows.stream import FILES
from penstock_bench.rows.streams import stream_named
from penstock_bench.system import Limits, Outcome, System, count_rows
from penstock_bench.workload import SLACK_SECONDS, Workload


class Penstock:
    """As many sites as cores and a fresh checkpoint per run. `file_epochs`: an epoch takes a file of every stream,
    instead of as much as Penstock chooses itself."""

    def __init__(self, name: str, limits: Limits, file_epochs: bool = False, master: str | None = None) -> None:
        self.name = name
        self._limits, self._file_epochs = limits, file_epochs
        self._master = master or f"local[{limits.cores}]"

    def prepare(self) -> None:
        """The first run starts the Spark session, and it stays: the warm-up run pays for it."""

    def run(self, workload: Workload, data_dir: Path, out_dir: Path) -> Outcome:
        result = out_dir / "rows"
        events: list[Event] = []
        options: RunOptions = {
            "sites": self._limits.cores,
            "master": self._master,
            "on_event": events.append,
        }
        if self._file_epochs:
            options["rows_per_epoch"] = _rows_of_a_file_each(workload, data_dir)
        # The clock is the harness's own, as for the peers: `run.progress.seconds` leaves out planning and opening.
        began = time.perf_counter()
        run = query_of(workload, data_dir, result).start(str(out_dir / "checkpoint"), **options)
        run.wait()
        seconds = time.perf_counter() - began
        progress = run.progress
        profiles = tuple(epoch_profiles(events))
        return Outcome(seconds, progress.rows_in, progress.rows_out, str(result), progress.epochs, profiles)

    def close(self) -> None:
        """The session ends with the process."""


def penstock(limits: Limits, scratch: Path) -> System:
    return Penstock("penstock", limits)


def penstock_files(limits: Limits, scratch: Path) -> System:
    return Penstock("penstock-files", limits, file_epochs=True)


def script_text(workload: Workload, data_dir: Path, result: Path) -> str:
    """The whole script: a source for every stream, and the workload's query into files."""
    sources = [_source(stream, data_dir / stream / "*.parquet") for stream in workload.streams]
    options = f"connector = 'files', path = {_quoted(result)}, format = 'arrow'"
    sink = f"CREATE SINK result WITH ({options}) AS {workload.penstock}"
    return ";\n".join([*sources, sink])


def query_of(workload: Workload, data_dir: Path, result: Path) -> Ready:
    """The workload's query, with its results as files in the folder `result`."""
    (query,) = read_script(script_text(workload, data_dir, result), workload.name).queries
    return query.ready


def _source(stream: str, files: Path) -> str:
    time_column = stream_named(stream).time
    return (
        f"CREATE SOURCE {stream} (WATERMARK FOR {time_column} AS {time_column} - INTERVAL '{SLACK_SECONDS}' SECOND)"
        f" WITH (connector = 'files', path = {_quoted(files)})"
    )


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"


def _rows_of_a_file_each(workload: Workload, data_dir: Path) -> int:
    """An epoch's rows are shared equally among the sources, so the largest stream decides."""
    rows = [count_rows(data_dir / stream) for stream in workload.streams]
    return -(-max(rows) // FILES) * len(rows)
