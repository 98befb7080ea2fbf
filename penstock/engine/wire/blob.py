"""Blobs: rows sent from a producer to a site, together with the producer's punctuation.

Every producer sends one blob to every site of each subquery that it feeds, even without rows: an empty blob is a
heartbeat. The header names the attempt of the producer, so that a mix of attempts is always detected. A blob is encoded
only when it leaves its process.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from penstock.progress.mark import Mark, Seen

_LENGTH = struct.Struct("<I")
_ALIGNMENT = 64  # bytes; rows begin at a multiple of it, the alignment that Arrow recommends


@dataclass(frozen=True)
class Header:
    """The header of a blob: which attempt of which producer sent it, on which branch, and its punctuation.

    `branch` is the number of the producer's branch, which ends at `port`. `seen` is the punctuation of a route task
    (None: it saw no rows), `marks` is that of a site, one per track that the branch feeds. `ordinal` is the ordinal of
    the split (None: a site sent the blob), and `numbered` is how many row numbers the split used, before any filter.
    """

    producer: str
    attempt: str
    branch: int = 0
    port: int = 0
    ordinal: int | None = None
    seen: Seen | None = None
    marks: tuple[Mark, ...] = ()
    numbered: int = 0


@dataclass(frozen=True)
class Blob:
    """Rows for one site, with their header. `rows` is None if there are none."""

    header: Header
    rows: pa.Table | None

    def encode(self) -> bytes:
        """Return the blob as bytes."""
        out = pa.BufferOutputStream()
        self.write_to(out)
        return out.getvalue().to_pybytes()

    def write_to(self, out: pa.NativeFile) -> None:
        """Write the length of the header, the header as JSON padded to the alignment, and the rows as an Arrow
        stream."""
        header = msgspec.json.encode(self.header)
        padding = b" " * (-(_LENGTH.size + len(header)) % _ALIGNMENT)
        out.write(_LENGTH.pack(len(header) + len(padding)) + header + padding)
        if self.rows is not None and self.rows.num_rows:
            with pa.ipc.new_stream(out, self.rows.schema) as writer:
                writer.write_table(self.rows)

    def __reduce__(self) -> tuple[Callable[[bytes], Blob], tuple[Any, ...]]:
        """Pickle the blob as its encoding."""
        return decode, (self.encode(),)


def decode(data: bytes | pa.Buffer) -> Blob:
    """Return the blob encoded in `data`. Its rows are views of `data`, not copies."""
    (length,) = _LENGTH.unpack_from(data)
    body = _LENGTH.size + length
    header = msgspec.json.decode(memoryview(data)[_LENGTH.size : body], type=Header)
    payload = pa.py_buffer(data).slice(body)
    return Blob(header, pa.ipc.open_stream(payload).read_all() if payload.size else None)
