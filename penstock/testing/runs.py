"""Run a query in this process under random settings, and compare the result with the batch answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.api.handle import Run
from penstock.api.run_options import RunOptions
from penstock.api.streams import Stream
from penstock.testing.oracle import batch_answer
from penstock.testing.rows import assert_same_rows
from penstock.testing.ways import Way, random_ways

_PATIENCE = 120.0  # seconds after which a run is considered stuck
_EPOCHS = 2  # after which the query is restarted with the next settings


def assert_exact(
    query: Stream, tables: Mapping[str, pa.Table] | None = None, *, seed: object = 1, runs: int = 20, **settings: Any
) -> None:
    """Run a query in random ways and fail if a run does not give the batch answer. `tables` has the rows of the sources
    by name; it may be omitted if all sources are in memory. A failure names its ways, and is repeatable with the same
    `seed`. Further settings of a run (`order="in"`) apply to all runs."""
    want = batch_answer(query, tables)
    for number in range(runs):
        ways = random_ways(Random(f"{seed} {number}"))
        with TemporaryDirectory(prefix="penstock-testing-") as folder:
            for run in runs_in_ways(query, Path(folder), ways, **settings):
                assert not run.progress.late_rows, _late(run.progress.late_rows)
            assert_same_rows(published_rows(query, Path(folder)), want, f"seed {seed}, run {number}: {ways}")


def _late(rows: int) -> str:
    return (
        f"{rows} rows came late, but the batch answer has all rows: let them arrive within what the progress rule of "
        "their source allows, or give it a larger slack"
    )


def runs_in_ways(query: Stream, folder: Path, ways: Sequence[Way], **settings: Any) -> Iterator[Run]:
    """Run a query from one checkpoint, two epochs in each way and to the end in the last. Yield each run after its
    end."""
    ready = query.to.files(str(folder / "out"))
    fixed = {"master": "inline", "epoch": "1ms", "progress": False, **settings}
    for way in ways:
        limit: RunOptions = {} if way is ways[-1] else {"until": f"{_EPOCHS} epochs"}
        run = ready.start(str(folder / "ck"), **fixed, **way.settings(), **limit).wait(_PATIENCE)
        assert not run.running, f"the run does not end: {run.stop(now=True).progress}"
        yield run
        if run.progress.state == "finished":
            return


def published_rows(query: Stream, folder: Path) -> pa.Table:
    """Return the rows that the runs in a folder have published."""
    found = [pq.read_table(path) for path in sorted((folder / "out").glob("*.parquet"))]
    return pa.concat_tables([query.schema.empty_table(), *found])
