"""Blobs: rows on their way from a producer to a site, with the producer's punctuation.

Every producer sends one blob to every site of the subquery it feeds, also when it has no rows for it: an empty blob is
a heartbeat. The header says which attempt of the producer made it, so that attempts are never mixed unseen.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from penstock.progress.mark import Mark
from penstock.progress.rules import Seen

_LENGTH = struct.Struct("<I")


@dataclass(frozen=True)
class Header:
    """`branch` is the producer's, and ends at `port`. `seen` is the punctuation of a route task (None: it saw no rows),
    `marks` that of a site, on each track that the branch feeds. `numbered` says how many numbers the rows of a
    split took, before any filter."""

    producer: str
    attempt: str
    branch: int = 0
    port: int = 0
    ordinal: int = -1
    seen: Seen | None = None
    marks: tuple[Mark, ...] = ()
    numbered: int = 0


@dataclass(frozen=True)
class Blob:
    header: Header
    rows: pa.Table | None

    def encode(self) -> bytes:
        header = msgspec.json.encode(self.header)
        out = pa.BufferOutputStream()
        out.write(_LENGTH.pack(len(header)) + header)
        if self.rows is not None and self.rows.num_rows:
            with pa.ipc.new_stream(out, self.rows.schema) as writer:
                writer.write_table(self.rows)
        return out.getvalue().to_pybytes()  # type: ignore[no-any-return]


def decode(data: bytes) -> Blob:
    (length,) = _LENGTH.unpack_from(data)
    body = _LENGTH.size + length
    header = msgspec.json.decode(memoryview(data)[_LENGTH.size : body], type=Header)
    payload = pa.py_buffer(data).slice(body)
    return Blob(header, pa.ipc.open_stream(payload).read_all() if payload.size else None)
