"""Tables of rows in the order of state, by key hash and then by time; and small tables coalesced, with bounded
memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa

from penstock.kernels.arrays import Indices, Times, Words
from penstock.kernels.hash import hash_columns
from penstock.kernels.order import order_by_hash_and_time
from penstock.state.runs import HASH, TIME
from penstock.types import as_array, time_values

_ROWS = 1 << 17  # tables of results are concatenated up to this many rows


def arranged_schema(rows: pa.Schema) -> pa.Schema:
    """Return the schema of arranged rows: #hash and #time before the columns of `rows`."""
    return pa.schema([pa.field(HASH, pa.uint64()), pa.field(TIME, pa.int64()), *rows])


def arranged(rows: pa.Table, keys: Sequence[str], time: str, hash_bits: int = 64) -> pa.Table:
    """Return the rows with #hash and #time before their columns, sorted by both."""
    columns = [as_array(rows.column(key)) for key in keys]
    hashes = hash_columns(columns, hash_bits, length=rows.num_rows)
    return sorted_with(hashes, time_values(rows.column(time)), rows)


def sorted_with(hashes: Words, times: Times, rows: pa.Table) -> pa.Table:
    """Return the rows with the given hashes and times before their columns, sorted by both."""
    order, ordered = order_by_hash_and_time(hashes, times)
    if order is not None:
        times, rows = times[order], rows.take(order)
    return pa.table([pa.array(ordered), pa.array(times), *rows.columns], schema=arranged_schema(rows.schema))


def merged(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """Merge tables that are sorted by hash and time into one."""
    filled = [table for table in tables if table.num_rows]
    if not filled:
        return schema.empty_table()
    if len(filled) == 1:
        return filled[0]
    together = pa.concat_tables(filled).combine_chunks()
    order, _ = order_by_hash_and_time(hashes_of(together), times_of(together))
    return together if order is None else together.take(order)


def order_of(table: pa.Table) -> Indices | None:
    """Return the order that sorts a table by hash and time; None if it is sorted."""
    return order_by_hash_and_time(hashes_of(table), times_of(table))[0]


def hashes_of(table: pa.Table) -> Words:
    """Return the column #hash as an array."""
    return np.asarray(as_array(table.column(HASH)).to_numpy(), dtype=np.uint64)


def times_of(table: pa.Table) -> Times:
    """Return the column #time as an array."""
    return np.asarray(as_array(table.column(TIME)).to_numpy(), dtype=np.int64)


Item = TypeVar("Item")


def gathered(parts: Iterable[Item], most: int, size: Callable[[Item], int]) -> Iterator[list[Item]]:
    """Group consecutive parts up to a total `size` of `most`. A larger part is alone; empty ones are skipped."""
    waiting: list[Item] = []
    filled = 0
    for part in parts:
        if not (length := size(part)):
            continue
        if waiting and filled + length > most:
            yield waiting
            waiting, filled = [], 0
        waiting.append(part)
        filled += length
    if waiting:
        yield waiting


def in_blocks(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the same rows in fewer tables."""
    return map(pa.concat_tables, gathered(tables, _ROWS, len))
