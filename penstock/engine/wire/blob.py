"""Blobs: rows on their way from a producer to a site, with the producer's punctuation.

Every producer sends one blob to every site of the subquery it feeds, also when it has no rows for it: an empty blob is
a heartbeat. The header says which attempt of the producer made it, so that attempts are never mixed unseen. A blob is
encoded where it leaves its process, and only there.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from penstock.progress.mark import Mark
from penstock.progress.rules import Seen

_LENGTH = struct.Struct("<I")
_ALIGNMENT = 64  # rows begin at a multiple of it, as Arrow likes them in memory


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
        out = pa.BufferOutputStream()
        self.write_to(out)
        return out.getvalue().to_pybytes()  # type: ignore[no-any-return]

    def write_to(self, out: pa.NativeFile) -> None:
        header = msgspec.json.encode(self.header)
        padding = b" " * (-(_LENGTH.size + len(header)) % _ALIGNMENT)
        out.write(_LENGTH.pack(len(header) + len(padding)) + header + padding)
        if self.rows is not None and self.rows.num_rows:
            with pa.ipc.new_stream(out, self.rows.schema) as writer:
                writer.write_table(self.rows)

    def __reduce__(self) -> tuple[Callable[[bytes], Blob], tuple[Any, ...]]:
        """Pickled, it is its encoding."""
        return decode, (self.encode(),)


def decode(data: bytes | pa.Buffer) -> Blob:
    """The blob, whose rows are not copied out of `data`."""
    (length,) = _LENGTH.unpack_from(data)
    body = _LENGTH.size + length
    header = msgspec.json.decode(memoryview(data)[_LENGTH.size : body], type=Header)
    payload = pa.py_buffer(data).slice(body)
    return Blob(header, pa.ipc.open_stream(payload).read_all() if payload.size else None)
