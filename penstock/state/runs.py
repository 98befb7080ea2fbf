"""Runs and slices as the manifest describes them. `storage.run_files` reads and writes the files.

A run is an immutable file of rows sorted by key hash, then by time. A slice is a range of hashes of a run: the unit in
which state moves between sites.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from penstock.state.hash_ranges import HASH_END, HashRange

HASH, TIME = "#hash", "#time"  # the first two columns of every run


@dataclass(frozen=True)
class RunFile:
    """A run file with state rows of one port.

    `min_time`, `median_time` and `max_time` describe the times of its rows. Half of the rows lie below `median_time`,
    so a run under half alive is recognised without reading the file. `blocks` concatenates the checksums of the file's
    blocks if it has several, so that a host can verify the blocks it fetches without the others.
    """

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
    """The rows of a run whose hash is in a range. If the slice's site owns only some of these hashes, the run has no
    rows with the others."""

    run: RunFile
    range: HashRange


def restrict(slices: Iterable[Slice], ranges: Iterable[HashRange]) -> Iterator[Slice]:
    """Yield the parts of the slices inside `ranges`, which must not overlap. Used to hand state to a new home."""
    wanted = sorted(ranges)
    for piece in slices:
        first = bisect_right(wanted, piece.range.low, key=lambda part: part.high)
        last = bisect_left(wanted, piece.range.high, key=lambda part: part.low)
        for part in wanted[first:last]:
            yield Slice(piece.run, HashRange(max(piece.range.low, part.low), min(piece.range.high, part.high)))


def join_neighbours(slices: Iterable[Slice]) -> tuple[Slice, ...]:
    """Return the same rows in the fewest slices: adjacent slices of one run become one."""
    joined: list[Slice] = []
    for piece in sorted(slices, key=lambda s: (s.run.name, s.range)):
        if joined and joined[-1].run.name == piece.run.name and joined[-1].range.high == piece.range.low:
            joined[-1] = Slice(piece.run, HashRange(joined[-1].range.low, piece.range.high))
        else:
            joined.append(piece)
    return tuple(joined)


def about(piece: Slice, sites: int) -> int:
    """Estimate the rows of a slice without reading it. Assumes that the run covers the hashes of one of `sites` equal
    sites."""
    part = (piece.range.high - piece.range.low) * sites / HASH_END
    return round(piece.run.rows * min(1.0, part))


def about_bytes(slices: Iterable[Slice], sites: int) -> int:
    """Estimate the bytes of slices without reading them. Assumes that each run covers the hashes of one of `sites`
    equal sites."""
    return sum(about(piece, sites) * (piece.run.size // piece.run.rows) for piece in slices)
