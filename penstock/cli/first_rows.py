"""Shows the first rows of a result that was written to files, as a run ends."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from penstock.checkpoint.store import epoch_of_name
from penstock.cli.running import Ended
from penstock.cli.summary import results_of
from penstock.connectors.sinks.files import FilesSink
from penstock.connectors.sinks.terminal import rows_as_table

_SHOWN = 5


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
