"""Runs and slices as values: what the manifest says of them. The files themselves are `storage.run_files`' matter.

A run is an immutable file of rows sorted by key hash, then by time. A slice is a range of hashes of a run: the unit in
which state changes hands.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from penstock.state.hash_ranges import HASH_END, HashRange

HASH, TIME = "#hash", "#time"  # the two columns that every run begins with


@dataclass(frozen=True)
class Run:
    """A run file with state rows of one port. The times are the least, the middle and the largest of its rows: half of
    the rows lie below `median_time`, so that "under half alive" can be told without reading the file. `blocks` holds
    the checksums of its blocks, one behind the other, where it has several: a host that needs only some of them can
    tell that they are right."""

    name: str
    port: int
    rows: int
    size: int
    checksum: str
    min_time: int
    median_time: int
    max_time: int
    blocks: str = ""


@dataclass(frozen=True)
class Slice:
    """The rows of a run whose hash lies in a range. Where its site is home to only some of these hashes, the run has no
    rows of the others."""

    run: Run
    range: HashRange


def restrict(slices: Iterable[Slice], ranges: Iterable[HashRange]) -> Iterator[Slice]:
    """The parts of the slices that lie in the given ranges, which do not overlap: how state is handed to a new home."""
    wanted = sorted(ranges)
    for piece in slices:
        first = bisect_right(wanted, piece.range.low, key=lambda part: part.high)
        last = bisect_left(wanted, piece.range.high, key=lambda part: part.low)
        for part in wanted[first:last]:
            yield Slice(piece.run, HashRange(max(piece.range.low, part.low), min(piece.range.high, part.high)))


def united(slices: Iterable[Slice]) -> list[HashRange]:
    """The hashes that any of the slices has, in order, as ranges that do not overlap."""
    ranges: list[HashRange] = []
    for part in sorted(piece.range for piece in slices):
        if ranges and part.low <= ranges[-1].high:
            ranges[-1] = HashRange(ranges[-1].low, max(ranges[-1].high, part.high))
        else:
            ranges.append(part)
    return ranges


def join_neighbours(slices: Iterable[Slice]) -> tuple[Slice, ...]:
    """The same rows in the fewest slices: touching slices of one run become one."""
    joined: list[Slice] = []
    for piece in sorted(slices, key=lambda s: (s.run.name, s.range)):
        if joined and joined[-1].run.name == piece.run.name and joined[-1].range.high == piece.range.low:
            joined[-1] = Slice(piece.run, HashRange(joined[-1].range.low, piece.range.high))
        else:
            joined.append(piece)
    return tuple(joined)


def about(piece: Slice, sites: int) -> int:
    """A guess at the rows of a slice that cannot be read yet: a run has the hashes of one of so many sites."""
    part = (piece.range.high - piece.range.low) * sites / HASH_END
    return round(piece.run.rows * min(1.0, part))


def about_bytes(slices: Iterable[Slice], sites: int) -> int:
    """A guess at the bytes of slices, of one of so many sites, without reading them."""
    return sum(about(piece, sites) * (piece.run.size // piece.run.rows) for piece in slices)
