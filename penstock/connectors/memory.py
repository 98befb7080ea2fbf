"""A source of rows held in memory, for tests, examples and small tables.

Progress is the number of batches offered, so the batches of a test determine what each epoch reads.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrow import AnyArray, AnyChunked, AnyScalar, as_lists, as_structs
from penstock.connectors.bad_rows import divert_malformed
from penstock.connectors.recorded import NonNegative, recorded, unusable
from penstock.connectors.source import Offer, ReadResult
from penstock.errors import ConfigError
from penstock.type_names import is_nested
from penstock.types import as_array, conform, normalise

MEMORY_SUBSTREAM = "memory"


@dataclass(frozen=True, eq=False)
class MemoryConnector:
    """Batches of rows of one schema. Invariant: there is at least one batch.

    Each batch is cut into `splits_per_batch` splits of about equal size; an empty batch has no split.
    `one_batch_per_offer`: an offer never has more than one batch, whatever the limit. `substreams`: the substream of
    each batch (empty: all belong to one). `finishing`: a substream is finished with its last batch; otherwise it stays
    open without further rows.
    """

    batches: tuple[pa.Table, ...]
    splits_per_batch: int = 1
    one_batch_per_offer: bool = False
    substreams: tuple[str, ...] = ()
    finishing: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "batches", tuple(self.batches))
        object.__setattr__(self, "substreams", tuple(self.substreams))
        if not self.batches:
            raise ConfigError("a memory source needs at least one batch", hint="an empty table gives the schema")
        if self.splits_per_batch < 1:
            raise ConfigError(
                "`splits_per_batch` must be at least 1", detail=f"it is {self.splits_per_batch}", hint="leave it out"
            )
        if self.substreams and (len(self.substreams) != len(self.batches) or not all(self.substreams)):
            raise ConfigError(
                "`substreams` must name one substream for each batch",
                detail=f"{len(self.batches)} batches, substreams {self.substreams}",
                hint="leave it out if all batches belong to one",
            )
        for i, batch in enumerate(self.batches):
            if not normalise(batch.schema).equals(self.discover()):
                raise ConfigError(
                    "the batches of a memory source must have one schema",
                    detail=f"batch {i} has ({_brief(batch.schema)}), the first ({_brief(self.batches[0].schema)})",
                    hint="cast the batches to one schema",
                )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MemoryConnector):
            return NotImplemented
        return self.identity() == other.identity() and self._cutting() == other._cutting()

    def __hash__(self) -> int:
        return hash((self._digest, self._cutting()))

    def _cutting(self) -> tuple[int, bool]:
        return self.splits_per_batch, self.one_batch_per_offer

    @property
    def kind(self) -> str:
        return "memory"

    @property
    def bounded(self) -> bool:
        return True

    def identity(self) -> dict[str, Any]:
        named = {"substreams": list(self.substreams), "finishing": self.finishing} if self.substreams else {}
        return {"kind": self.kind, "schema": _brief(self.discover()), "digest": self._digest, **named}

    @functools.cached_property
    def _digest(self) -> str:
        """Return a hash of the rows and the boundaries of batches; it does not depend on the chunks of a table."""
        digest = hashlib.sha256()
        for batch in self.batches:
            rows = conform(batch, self.discover())
            flat = [field.name for field in rows.schema if not is_nested(field.type)]
            digest.update(hashlib.sha256(to_ipc(_canonical(rows.select(flat)))).digest())
            for nested in (column for column in rows.columns if is_nested(column.type)):
                _digest_nested(digest, as_array(nested))
        return digest.hexdigest()

    def discover(self) -> pa.Schema:
        return normalise(self.batches[0].schema)

    def open(self, schema: pa.Schema, time: str) -> MemoryReader:
        batches = tuple(conform(batch, schema, "the memory source") for batch in self.batches)
        names = self.substreams or (MEMORY_SUBSTREAM,) * len(batches)
        return MemoryReader(batches, names, self.splits_per_batch, self.one_batch_per_offer, self.finishing, time)


@dataclass(frozen=True)
class MemorySplit:
    """The rows of a batch from `first` on. Pickled as Arrow IPC."""

    table: pa.Table
    batch: int
    first: int
    time: str
    substream: str = MEMORY_SUBSTREAM

    @property
    def rows(self) -> int:
        return int(self.table.num_rows)

    @property
    def where(self) -> str:
        return f"memory batch {self.batch}, rows {self.first} to {self.first + self.rows}"

    def read(self, columns: tuple[str, ...]) -> Iterator[ReadResult]:
        names = list(dict.fromkeys((*columns, self.time)))
        found = divert_malformed(self.table.select(names), self.time, f"batch {self.batch}", lambda: self.first)
        yield ReadResult(found.rows.select(list(columns)), found.bad)

    def __reduce__(self) -> tuple[object, ...]:
        return _split_of_ipc, (to_ipc(self.table), self.batch, self.first, self.time, self.substream)


@dataclass(frozen=True)
class _RecordedBatches:
    """The recorded progress: the number of batches read."""

    batches: NonNegative


class MemoryReader:
    """Offers whole batches in order."""

    def __init__(
        self,
        batches: tuple[pa.Table, ...],
        substreams: tuple[str, ...],
        splits_per_batch: int,
        one_at_a_time: bool,
        finishing: bool,
        time: str,
    ) -> None:
        self._batches, self._substreams, self._splits_per_batch = batches, substreams, splits_per_batch
        self._one_at_a_time, self._finishing, self._time = one_at_a_time, finishing, time

    def offer(self, progress: dict[str, Any] | None, max_rows: int) -> Offer:
        """Return the splits of the next batches."""
        start = 0 if progress is None else recorded(progress, _RecordedBatches).batches
        if start > len(self._batches):
            raise unusable(f"{start} batches are read, and there are {len(self._batches)}")
        end = self._end(start, max_rows)
        splits = tuple(split for i in range(start, end) for split in self._splits(i))
        waiting = sum(batch.num_rows for batch in self._batches[end:])
        return Offer(splits, {"batches": end}, end >= len(self._batches), waiting, self._finished(start, end))

    def _finished(self, start: int, end: int) -> tuple[str, ...]:
        """Return the substreams whose last batch is in [start, end)."""
        last_ones = sorted({*self._substreams[start:end]} - {*self._substreams[end:]})
        return tuple(last_ones) if self._finishing else ()

    def _end(self, start: int, max_rows: int) -> int:
        """Return the index after the last batch of an offer: at least one batch, then as many as fit into
        `max_rows`."""
        end, rows = start, 0
        while end < len(self._batches):
            rows += self._batches[end].num_rows
            if rows > max_rows and end > start:
                break
            end += 1
            if self._one_at_a_time:
                break
        return end

    def _splits(self, i: int) -> Iterator[MemorySplit]:
        """Yield the splits of batch `i` that have rows."""
        batch = self._batches[i]
        for k in range(self._splits_per_batch):
            first = batch.num_rows * k // self._splits_per_batch
            last = batch.num_rows * (k + 1) // self._splits_per_batch
            if last > first:
                yield MemorySplit(batch.slice(first, last - first), i, first, self._time, self._substreams[i])


def _brief(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _canonical(table: pa.Table) -> pa.Table:
    """Return a table with equal bytes for equal rows: values under a null are arbitrary, so they are set to zero."""
    columns: dict[str, AnyArray | AnyChunked] = {}
    for i, column in enumerate(table.columns):
        columns[f"valid{i}"] = pc.is_valid(column).cast(pa.uint8())
        columns[f"value{i}"] = column.fill_null(_zero(column.type)) if column.null_count else column
    return pa.table(columns).combine_chunks()


def _digest_nested(digest: hashlib._Hash, array: AnyArray) -> None:
    """Hash validity, list lengths and child values, without the arbitrary values under a null."""
    if not is_nested(array.type):
        digest.update(to_ipc(_canonical(pa.table({"value": array}))))
        return
    digest.update(array.is_valid().cast(pa.uint8()).to_numpy().tobytes())
    if pa.types.is_map(array.type):
        array = array.cast(pa.list_(pa.struct([("key", array.type.key_type), ("value", array.type.item_type)])))
    if pa.types.is_list(array.type):
        digest.update(pc.list_value_length(array).fill_null(0).to_numpy().tobytes())
        _digest_nested(digest, as_lists(array).flatten())
        return
    for child in as_structs(array).flatten():
        _digest_nested(digest, child)


def _zero(type_: pa.DataType) -> AnyScalar:
    """Return the zero or empty value of the type."""
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        return pa.scalar("", pa.string()).cast(type_)
    if pa.types.is_decimal(type_):
        return pa.scalar(Decimal(0), type_)
    plain = pa.int32() if pa.types.is_date32(type_) else pa.int64()
    return pa.scalar(0, plain).cast(type_)


def to_ipc(table: pa.Table) -> bytes:
    """Return the table as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _split_of_ipc(data: bytes, batch: int, first: int, time: str, substream: str) -> MemorySplit:
    return MemorySplit(pa.ipc.open_stream(data).read_all(), batch, first, time, substream)
