"""How a file can be cut into splits: a range of positions, and about how many rows lie between two of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

# Text is read into one buffer per split, so a split of very long lines is bounded by its bytes as well.
MAX_SPLIT_BYTES = 64 << 20


class Layout(Protocol):
    """Positions run from `begin` to `end`; every position in between is a place where the file may be cut."""

    @property
    def begin(self) -> int: ...

    @property
    def end(self) -> int: ...

    def cut(self, at: int, rows: int) -> int:
        """The position about `rows` rows after `at`, always beyond it."""
        ...

    def rows(self, start: int, end: int) -> int:
        """How many rows lie in the range; an estimate for text."""
        ...

    @property
    def sequential(self) -> bool:
        """Whether the file can be read only from its beginning on, so that several splits at once do not pay."""
        ...


@dataclass(frozen=True)
class UnitLayout:
    """A file of indivisible units (row groups, record batches) of known sizes. A position is the number of a unit."""

    counts: tuple[int, ...]

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


@dataclass(frozen=True)
class ByteLayout:
    """A file of lines. A position is an offset in bytes of the text; a line belongs to the range in which it starts. A
    compressed file is read piece by piece, so the bytes of a split have no bound."""

    begin: int
    end: int
    bytes_per_row: float
    sequential: bool = False

    def cut(self, at: int, rows: int) -> int:
        width = max(1, int(rows * self.bytes_per_row))
        if rows >= self.rows(at, self.end):
            width = self.end - at  # all of them, without a rest that rounding would leave
        width = width if self.sequential else min(MAX_SPLIT_BYTES, width)
        return min(self.end, at + width)

    def rows(self, start: int, end: int) -> int:
        return 0 if end <= start else max(1, round((end - start) / self.bytes_per_row))
