"""What tests of joins and other operators share: streams of a few rows with a time, a key and a number."""

from __future__ import annotations

import pyarrow as pa

import penstock as ps
from penstock.api.streams import Stream
from penstock.testing import batch_answer
from penstock.testing.source_rows import tables_of

Batch = list[tuple[int, int]]
_SCHEMA = pa.schema([(name, pa.int64()) for name in ("ts", "k", "i")])


def rows(batch: Batch) -> pa.Table:
    """Rows of times and keys; the number follows the time."""
    times = [time for time, _ in batch]
    return pa.table([times, [key for _, key in batch], [time % 5 for time in times]], schema=_SCHEMA)


def stream(name: str, *batches: Batch, slack: int = 0, idle: str | None = None) -> Stream:
    """A batch is an epoch."""
    parts = [rows(batch) for batch in batches]
    return ps.read.batches(parts, time="ts", progress=ps.slack(slack), name=name, idle=idle)


def answer(query: Stream) -> pa.Table:
    """The batch answer over all rows."""
    return batch_answer(query.node, tables_of(query.node))
