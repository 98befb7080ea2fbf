"""Runs and slices as the manifest describes them. `storage.run_files` reads and writes the files.

A run is an immutable file of rows sorted by key hash, then by time. A slice is a range of hashes of a run: the unit in
which state moves between sites.

Compaction: choose which slices of a site to rewrite as one run. Pure; the site step rewrites them.

Slices that are adjacent in time are merged, up to half of the time span of the live rows, so that expiry can still drop
whole runs. A run with fewer than half of its rows alive is rewritten. If disorder makes each run as wide as the live
span, time cannot separate the runs; such wide runs are merged with each other.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from penstock.state.hash_ranges import HASH_END, HashRange

HASH, TIME = "#hash", "#time"  # the first two columns of every run


FAN = 4  # merge at least this many runs of similar size
MOST_SLICES = 24  # above this number, merge neighbours of any size


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


def united(slices: Iterable[Slice]) -> list[HashRange]:
    """Return the hashes of all slices as sorted ranges without overlap."""
    ranges: list[HashRange] = []
    for part in sorted(piece.range for piece in slices):
        if ranges and part.low <= ranges[-1].high:
            ranges[-1] = HashRange(ranges[-1].low, max(ranges[-1].high, part.high))
        else:
            ranges.append(part)
    return ranges


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


@dataclass(frozen=True)
class _Piece:
    """A slice with the time at which its live rows start. `broad`: its live rows span more than the limit of a
    merge."""

    slice: Slice
    start: int
    broad: bool


def choose(slices: Sequence[Slice], expired_below: int, window: int) -> list[tuple[Slice, ...]]:
    """Return sets of slices, each set to be rewritten as one run. No slice is in two sets.

    Rows below `expired_below` are dead. `window` is the length of the operator's window, in the unit of the times.
    """
    if not slices:
        return []
    alive_span = max(s.run.max_time for s in slices) - expired_below
    limit = max(window, alive_span) // 2
    pieces = sorted((_piece(s, expired_below, limit) for s in slices), key=lambda p: (p.broad, p.start))
    chosen = list(_tiers([p for p in pieces if p.broad], None)) + list(
        _tiers([p for p in pieces if not p.broad], limit)
    )
    if not chosen and len(slices) > MOST_SLICES:
        chosen = [tuple(p.slice for p in pieces[: len(slices) - MOST_SLICES // 2])]
    taken = {s for group in chosen for s in group}
    return chosen + [(s,) for s in slices if s not in taken and _mostly_dead(s, expired_below)]


def _piece(piece: Slice, expired_below: int, limit: int) -> _Piece:
    """Return the slice with the start of its live rows, and mark it as broad if they span more than `limit`."""
    start = max(piece.run.min_time, expired_below)
    return _Piece(piece, start, piece.run.max_time - start > limit)


def _mostly_dead(piece: Slice, expired_below: int) -> bool:
    """Return whether more than half of the run's rows are expired. Needs no access to the file."""
    return piece.run.median_time < expired_below


def _tier(piece: _Piece) -> int:
    """Return the size class of a slice's run: each class spans a factor of four, and the lowest ends at 2,047 rows."""
    return max(0, piece.slice.run.rows.bit_length() - 10) // 2


def _tiers(pieces: Sequence[_Piece], limit: int | None) -> Iterator[tuple[Slice, ...]]:
    """Yield sequences of at least FAN neighbours of one size class that span at most `limit` of time (None: no
    limit)."""
    for _, stretch in groupby(pieces, key=_tier):
        part: list[_Piece] = []
        for piece in stretch:
            if limit is not None and part and piece.slice.run.max_time - part[0].start > limit:
                yield from _if_enough(part)
                part = []
            part.append(piece)
        yield from _if_enough(part)


def _if_enough(part: Sequence[_Piece]) -> Iterator[tuple[Slice, ...]]:
    """Yield the slices of `part` as one set if there are at least FAN of them."""
    if len(part) >= FAN:
        yield tuple(p.slice for p in part)
