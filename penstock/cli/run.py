"""`penstock run`: run a target with its flags and return an exit code.

Ad-hoc queries: a bare SELECT keeps no checkpoint, can be repeated, and shows its rows as a table. Over bounded input it
runs in this process and shows one table at the end. Over unbounded input it shows its rows epoch by epoch.

`--fresh` deletes a checkpoint and the results that were published from it, and nothing that Penstock did not write:
from a folder of results only the files of the query, and only if the folder is marked as belonging to the query of the
checkpoint.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import typer
from rich.console import Console

from penstock.api.progress_line import screen_for_stderr
from penstock.api.run_options import read_run_options
from penstock.api.script import NamedQuery
from penstock.api.write import Ready
from penstock.checkpoint import manifest as manifests
from penstock.checkpoint.lock import in_use
from penstock.cli.counted import counted
from penstock.cli.errors_shown import show_warnings
from penstock.cli.running import Ended, run_jobs
from penstock.cli.summary import json_line, results_of, shown_path, summary_lines
from penstock.cli.target import Job, Target, load_command, load_target
from penstock.connectors.sinks.files import FilesSink, published_by
from penstock.connectors.sinks.sink import CollectedSink
from penstock.connectors.sinks.terminal import TerminalSink, print_rows
from penstock.errors import CheckpointError, ConfigError
from penstock.given import given_master, layered
from penstock.plan.compile.subqueries import node_schema
from penstock.plan.logical import Node, Source, inputs_of
from penstock.settings import INLINE, Settings
from penstock.storage.durable import epoch_of_name

_SHOWN = 5
_KEPT = 100_000  # rows; of a larger result the first rows to arrive are shown, unsorted
_PIPED_WIDTH = 10_000  # columns; a pipe has no width at which to truncate


@dataclass(frozen=True)
class RunRequest:
    """The arguments of the command. `flags` override the settings of a script. `fresh`: delete the checkpoint first,
    without asking if `sure`."""

    target: str | None
    command: str | None
    checkpoint: Path | None
    flags: Mapping[str, Any]
    rows: int
    as_json: bool
    fresh: bool = False
    sure: bool = False


def run_target(request: RunRequest) -> int:
    """Run all queries of a target and return the exit code."""
    adhoc = _collecting(_target(request), request.rows)
    target = adhoc.target
    show_warnings(target.warnings)
    options = layered(target.settings, request.flags)
    asked = options.get("master") or given_master()
    options["master"] = asked or _usual_master(target)
    jobs = target.jobs(request.checkpoint)
    if request.fresh:
        _begin_anew(jobs, request.sure)
    ended, code = run_jobs(jobs, options, screen_for_stderr())
    for result in adhoc.results:
        result.print(request.rows)
    _conclude(ended, options["master"])
    if asked is None and options["master"] == INLINE and not all(one.was_finished for one in ended):
        print("  on Spark    with --master local[*]", file=sys.stderr, flush=True)
    if request.as_json:
        print(json_line(ended), flush=True)
    return code


def run_options(settings: Sequence[str], flags: Mapping[str, object]) -> dict[str, Any]:
    """Return the options given by `--set` and by flags; a flag overrides `--set`."""
    given = {name: str(value) for name, value in flags.items() if value is not None}
    return read_run_options(dict(map(_pair, settings)) | given)


def _pair(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise ConfigError(f"`--set {text}` is not a setting", hint="write it as --set key=value")
    return key.strip(), value.strip()


def _target(request: RunRequest) -> Target:
    """Load the script, module or SQL text that the command names."""
    match request.target, request.command:
        case str(target), None:
            return load_target(target)
        case None, str(command):
            return load_command(command)
        case None, None:
            raise ConfigError(
                "there is nothing to run",
                detail="no script, stream or command is given",
                hint='penstock run busy.sql, penstock run module:stream, or penstock run -c "SELECT ..."',
            )
    raise ConfigError(
        f"`{request.target}` and -c cannot be run together",
        detail="-c gives the SQL to run, and so does a script",
        hint="leave one of them out",
    )


def _conclude(ended: Iterable[Ended], master: str) -> None:
    """Print a summary of each query, and some rows of results in files."""
    all_of_them = list(ended)
    for one in all_of_them:
        for line in summary_lines(one, master, len(all_of_them) > 1, "the same command continues from here"):
            print(line, file=sys.stderr, flush=True)
        _some_rows(one)


def _some_rows(ended: Ended) -> None:
    """Print some of the published rows of the run on stderr; those of earlier runs if this run published none."""
    folder, sink = results_of(ended), ended.job.ready.sink.connector
    if folder is None or not isinstance(sink, FilesSink):
        return
    with suppress(OSError, pa.ArrowException, StopIteration):  # a consumer may have removed the files
        rows = _first(next(iter(_own(sink.files(folder), ended))))
        print_rows(Console(stderr=True, highlight=False), rows, "some of the rows", _SHOWN)


def _own(files: Sequence[Path], ended: Ended) -> Sequence[Path]:
    """Return the files of this run; all files if it has published none."""
    before = ended.run.progress.epoch - ended.run.progress.epochs
    return [file for file in files if (epoch_of_name(file.name) or 0) > before] or files


def _first(file: Path) -> pa.Table:
    """Read the first rows of a file without reading the rest."""
    if file.suffix == ".parquet":
        with pq.ParquetFile(file) as parquet:
            batch = next(parquet.iter_batches(batch_size=_SHOWN), None)
            return parquet.schema_arrow.empty_table() if batch is None else pa.Table.from_batches([batch])
    with pa.memory_map(str(file)) as source, pa.ipc.open_file(source) as arrow:
        batches = [arrow.get_batch(0).slice(0, _SHOWN)] if arrow.num_record_batches else []
        return pa.Table.from_batches(batches, arrow.schema)


@dataclass
class _ResultRows:
    """The rows of a result as they are delivered. Invariant: `count` is the number of all rows; `tables` holds the
    first ones, at least `_KEPT` if there are that many."""

    schema: pa.Schema
    tables: list[pa.Table] = field(default_factory=list)
    count: int = 0

    def deliver(self, epoch: int, rows: pa.Table) -> None:
        """Take the rows of an epoch."""
        if self.count < _KEPT:
            self.tables.append(rows)
        self.count += rows.num_rows

    def first(self, most: int) -> pa.Table:
        """Return the first rows, sorted by the columns from left to right if all rows are kept and can be sorted."""
        rows = pa.concat_tables([self.schema.empty_table(), *self.tables])
        keys: list[tuple[str, Literal["ascending", "descending"]]] = [
            (f.name, "ascending") for f in self.schema if not pa.types.is_nested(f.type)
        ]
        whole = self.count == rows.num_rows and keys
        return (rows.sort_by(keys) if whole else rows).slice(0, most)

    def print(self, most: int) -> None:
        """Print the first rows on stdout."""
        shown = self.first(most)
        console = Console(highlight=False) if sys.stdout.isatty() else Console(width=_PIPED_WIDTH, highlight=False)
        print_rows(console, shown, "", most)
        if self.count > shown.num_rows:
            console.print(f"the first {shown.num_rows:,} of {self.count:,} rows; --rows N shows more")


@dataclass(frozen=True)
class _AdHoc:
    """A target whose ad-hoc queries over bounded input deliver to `results`, one for each query."""

    target: Target
    results: tuple[_ResultRows, ...]


def _collecting(target: Target, rows: int) -> _AdHoc:
    """Make ad-hoc queries collect their rows or, over unbounded input, print up to `rows` rows of each epoch."""
    results: list[_ResultRows] = []
    queries = tuple(_delivering(query, rows, results) for query in target.queries)
    return _AdHoc(replace(target, queries=queries), tuple(results))


def _delivering(query: NamedQuery, rows: int, results: list[_ResultRows]) -> NamedQuery:
    if not query.adhoc:
        return query
    node = query.ready.sink.input
    if not _at_rest(node):
        return replace(query, ready=Ready(replace(query.ready.sink, connector=TerminalSink(rows))))
    results.append(_ResultRows(node_schema(node)))
    sink = CollectedSink("terminal", results[-1].deliver)
    return replace(query, ready=Ready(replace(query.ready.sink, connector=sink)))


def _usual_master(target: Target) -> str:
    """Return the master to run on if none is asked for: this process for ad-hoc queries over bounded input, else
    Spark."""
    quick = all(query.adhoc and _at_rest(query.ready.sink.input) for query in target.queries)
    return INLINE if quick else Settings().master


def _at_rest(node: Node) -> bool:
    """Return whether all rows exist already: every source is bounded and none is paced by the clock."""
    return all(
        getattr(source.connector, "bounded", False) and not getattr(source.connector, "realtime", False)
        for source in _sources(node)
    )


def _sources(node: Node) -> Iterator[Source]:
    """Yield the sources below a node, each once."""
    left, seen = [node], set[int]()
    while left:
        node = left.pop()
        if id(node) not in seen:  # a view that is read twice is one node
            seen.add(id(node))
            left.extend(inputs_of(node))
            if isinstance(node, Source):
                yield node


@dataclass(frozen=True)
class _Leftovers:
    """The files of earlier runs of a query: its checkpoint, and results outside it."""

    checkpoint: Path
    files: tuple[Path, ...]
    stagings: tuple[Path, ...]

    def describe(self) -> str:
        folders = sorted({shown_path(staging.parent) for staging in self.stagings})
        results = f" and {counted(len(self.files), 'file')} of results in {', '.join(folders)}" if folders else ""
        return f"the checkpoint {shown_path(self.checkpoint)}{results}"

    def delete(self) -> None:
        """Delete the results first: after a crash in between, the checkpoint is still there and the deletion can be
        repeated."""
        for file in self.files:
            file.unlink(missing_ok=True)
        for staging in self.stagings:
            shutil.rmtree(staging, ignore_errors=True)
            if staging.parent.is_dir() and not any(staging.parent.iterdir()):
                staging.parent.rmdir()
        shutil.rmtree(self.checkpoint)


def _begin_anew(jobs: Sequence[Job], sure: bool) -> None:
    """Delete the files of earlier runs of the jobs, after asking unless `sure`."""
    found = [leftovers for job in jobs if job.checkpoint is not None for leftovers in _left_in(job.checkpoint)]
    if not found:
        return
    if not sure:
        _ask(found)
    for leftovers in found:
        leftovers.delete()
        print(f"deleted {leftovers.describe()}", file=sys.stderr, flush=True)


def _ask(found: Sequence[_Leftovers]) -> None:
    """Ask the user for permission to delete; raise if there is no terminal or the answer is no."""
    described = "; ".join(leftovers.describe() for leftovers in found)
    if not sys.stdin.isatty():
        raise ConfigError(
            "--fresh deletes results, and there is no terminal to ask on",
            detail=f"it would delete {described}",
            hint="add --yes to delete without asking",
        )
    if not typer.confirm(f"delete {described}?", err=True):
        raise typer.Abort


def _left_in(checkpoint: Path) -> list[_Leftovers]:
    """Return the files to delete for a checkpoint; empty if it does not exist. Raise if it is not a checkpoint or is in
    use."""
    root = checkpoint.expanduser().absolute()
    if not root.exists():
        return []
    if root.is_symlink() or not (root / "manifests").is_dir():
        raise CheckpointError(
            f"{shown_path(root)} is not a checkpoint, so it is not deleted",
            detail="it holds no manifests" if not root.is_symlink() else "it is a link",
            hint="name the folder of a checkpoint, or remove this one by hand",
        )
    if in_use(root):
        raise CheckpointError(
            "this checkpoint is in use by another run", detail=shown_path(root), hint="stop that run first"
        )
    return [_leftovers(root)]


def _leftovers(root: Path) -> _Leftovers:
    """Find the results that were published from a checkpoint."""
    known = manifests.epochs(root / "manifests")
    if not known:
        return _Leftovers(root, (), ())
    newest = manifests.read(root / "manifests", known[-1])
    stagings = [Path(folder) for folder in newest.folders.values() if not Path(folder).is_relative_to(root)]
    own = {staging: published_by(staging, newest.query_id) for staging in stagings}
    mine = {staging: files for staging, files in own.items() if files is not None}
    return _Leftovers(root, tuple(file for files in mine.values() for file in files), tuple(mine))
