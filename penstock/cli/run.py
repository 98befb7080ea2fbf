"""`penstock run`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from penstock.api.progress_line import screen_for_stderr
from penstock.checkpoint.store import epoch_of_name
from penstock.cli.adhoc import collecting, master_of
from penstock.cli.errors_shown import show_warnings
from penstock.cli.fresh import begin_anew
from penstock.cli.running import Ended, run_jobs
from penstock.cli.summary import json_line, results_of, summary_lines
from penstock.cli.target import Target, load_command, load_target
from penstock.connectors.sinks.files import FilesSink
from penstock.connectors.sinks.terminal import rows_as_table
from penstock.errors import ConfigError
from penstock.settings import INLINE

_SHOWN = 5


@dataclass(frozen=True)
class RunRequest:
    """What the command line asks for. `flags` are stronger than the settings of a script. `fresh`: begin anew, without
    asking where `sure`."""

    target: str | None
    command: str | None
    checkpoint: Path | None
    flags: Mapping[str, Any]
    rows: int
    as_json: bool
    fresh: bool = False
    sure: bool = False


def run_target(request: RunRequest) -> int:
    """Run all queries of a target; return the exit code."""
    adhoc = collecting(_target(request), request.rows)
    target = adhoc.target
    show_warnings(target.warnings)
    options = {**target.settings, **request.flags}
    options["master"] = master_of(target, options)
    jobs, screen = target.jobs(request.checkpoint), screen_for_stderr()
    if request.fresh:
        begin_anew(jobs, request.sure)
    if options["master"] == INLINE and "master" not in request.flags:
        screen.say("in process; --master local[*] runs it on Spark")
    ended, code = run_jobs(jobs, options, screen)
    for result in adhoc.results:
        result.print(request.rows)
    _conclude(ended, options["master"])
    if request.as_json:
        print(json_line(ended), flush=True)
    return code


def _target(request: RunRequest) -> Target:
    match request.target, request.command:
        case str(target), None:
            return load_target(target)
        case None, str(command):
            return load_command(command)
        case None, None:
            raise ConfigError(
                "there is nothing to run",
                detail="neither a script nor a stream nor a command is named",
                hint='penstock run busy.sql, penstock run module:stream, or penstock run -c "SELECT ..."',
            )
    raise ConfigError(
        f"`{request.target}` and -c cannot be run together",
        detail="-c gives the SQL to run, and so does a script",
        hint="leave one of them out",
    )


def _conclude(ended: Iterable[Ended], master: str) -> None:
    """Say what was done, and show the first rows of what was written to files."""
    all_of_them = list(ended)
    for one in all_of_them:
        for line in summary_lines(one, master, len(all_of_them) > 1, "the same command goes on from here"):
            print(line, file=sys.stderr, flush=True)
        first_rows(one)


def first_rows(ended: Ended) -> None:
    """Print the first rows that the run has published, on stderr, or where it did nothing those before it."""
    folder, sink = results_of(ended), ended.job.ready.sink.connector
    if folder is None or not isinstance(sink, FilesSink):
        return
    with suppress(OSError, pa.ArrowException, StopIteration):  # a consumer may have taken the files away
        rows = _first(next(iter(_own(sink.files(folder), ended))))
        Console(stderr=True, highlight=False).print(rows_as_table(rows, "first rows", _SHOWN))


def _own(files: Sequence[Path], ended: Ended) -> Sequence[Path]:
    """The files of this run; all of them where it has published none."""
    before = ended.run.progress.epoch - ended.run.progress.epochs
    return [file for file in files if (epoch_of_name(file.name) or 0) > before] or files


def _first(file: Path) -> pa.Table:
    """The first rows of a file, without reading the others."""
    if file.suffix == ".parquet":
        with pq.ParquetFile(file) as parquet:
            batch = next(parquet.iter_batches(batch_size=_SHOWN), None)
            return parquet.schema_arrow.empty_table() if batch is None else pa.Table.from_batches([batch])
    with pa.memory_map(str(file)) as source, pa.ipc.open_file(source) as arrow:
        batches = [arrow.get_batch(0).slice(0, _SHOWN)] if arrow.num_record_batches else []
        return pa.Table.from_batches(batches, arrow.schema)
