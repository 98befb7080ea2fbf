"""How much is joined, in how much memory, and for how long a system may try."""

from __future__ import annotations

from dataclasses import dataclass

FIXED_BYTES = 32  # of a row without its payload
STREAMS = ("a", "b", "c")
MEGABYTE = 1_000_000
MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Scale:
    """`rows` of each stream, each with a text of `payload` bytes, in `files` files. Each key occurs `copies` times in a
    stream. `memory` is for the state of all sites together, `base` for everything else in a JVM; both in bytes. After
    `limit` seconds a system is too slow, and after `stall` seconds without progress it has stalled."""

    rows: int
    payload: int
    copies: int
    files: int
    memory: int
    base: int
    limit: float
    stall: float
    sites: int = 2

    @property
    def all_rows(self) -> int:
        return len(STREAMS) * self.rows

    @property
    def row_bytes(self) -> int:
        return FIXED_BYTES + self.payload

    @property
    def state(self) -> int:
        """Return the bytes of all rows, none of which may be forgotten."""
        return self.all_rows * self.row_bytes

    @property
    def results(self) -> int:
        """Return how many rows the join has: a key has so many copies in each stream."""
        keys = self.rows // self.copies
        return keys * int(self.copies ** len(STREAMS))


FULL = Scale(
    rows=1_560_000, payload=400, copies=1, files=40,
    memory=200 * MEGABYTE, base=512 * MEBIBYTE, limit=300.0, stall=90.0,
)  # fmt: skip
QUICK = Scale(
    rows=6_000, payload=400, copies=1, files=4,
    memory=64 * MEGABYTE, base=512 * MEBIBYTE, limit=120.0, stall=60.0,
)  # fmt: skip
