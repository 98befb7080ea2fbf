"""The layout of a file: the positions at which it can be cut, and the approximate number of rows between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

# Text is read into one buffer per split, so a split is limited in bytes too, for files with very long lines.
MAX_SPLIT_BYTES = 64 << 20


class Layout(Protocol):
    """The positions of a file, from `begin` to `end`; the file can be cut at every position between them."""

    @property
    def begin(self) -> int: ...

    @property
    def end(self) -> int: ...

    def cut(self, at: int, rows: int) -> int:
        """Return the position about `rows` rows after `at`; always greater than `at`."""
        ...

    def rows(self, start: int, end: int) -> int:
        """Return the number of rows in the range; an estimate for text."""
        ...

    def size(self, start: int, end: int) -> int:
        """Return about how many bytes the rows of the range take in memory."""
        ...

    @property
    def sequential(self) -> bool:
        """Return whether the file can only be read from its start, so that parallel splits do not pay off."""
        ...


@dataclass(frozen=True)
class UnitLayout:
    """A file of indivisible units (row groups, record batches) of known sizes. A position is the index of a unit.
    `counts` are the rows of the units, `bytes_per_row` is the mean over the file."""

    counts: tuple[int, ...]
    bytes_per_row: float = 0.0

    @property
    def sequential(self) -> bool:
        return False

    @property
    def begin(self) -> int:
        return 0

    @property
    def end(self) -> int:
        return len(self.counts)

    def cut(self, at: int, rows: int) -> int:
        total, to = self.counts[at], at + 1
        while to < len(self.counts) and total + self.counts[to] <= rows:
            total, to = total + self.counts[to], to + 1
        return to

    def rows(self, start: int, end: int) -> int:
        return sum(self.counts[start:end])

    def size(self, start: int, end: int) -> int:
        return round(self.rows(start, end) * self.bytes_per_row)


@dataclass(frozen=True)
class ByteLayout:
    """A file of lines. A position is a byte offset in the text; a line belongs to the range in which it starts.

    A compressed file is read in small steps, so the bytes of its splits are not limited.
    """

    begin: int
    end: int
    bytes_per_row: float
    sequential: bool = False

    def cut(self, at: int, rows: int) -> int:
        width = max(1, int(rows * self.bytes_per_row))
        if rows >= self.rows(at, self.end):
            width = self.end - at  # all rows, without a remainder from rounding
        width = width if self.sequential else min(MAX_SPLIT_BYTES, width)
        return min(self.end, at + width)

    def rows(self, start: int, end: int) -> int:
        return 0 if end <= start else max(1, round((end - start) / self.bytes_per_row))

    def size(self, start: int, end: int) -> int:
        return end - start
