"""Runs and slices as the manifest describes them, and the choice of slices to merge. Pure: `storage.run_files` writes
the files, and the site step rewrites them.

A run is an immutable file of rows sorted by key hash, then by time. A slice is a range of hashes of a run: the unit in
which state moves between sites.

Compaction: slices that are adjacent in time are merged, up to half of the time span of the live rows, so that expiry
can still drop whole runs. A run with fewer than half of its rows alive is rewritten. If disorder makes each run as wide
as the live span, time cannot separate the runs; such wide runs are merged with each other.

Runs have a largest size, so merging large ones gives several, each with a part of the hashes. Every range of hashes is
therefore looked at alone: what counts is how many slices a lookup in it has to search. Slices of similar density, rows
per width of hashes, are merged; so every row is rewritten about once each time the state grows by a factor of `FAN`.

Groups that move or are parked leave holes in runs, and merges between these leave short runs. An item searches all of
them, even though hardly any two have rows at one hash. So small slices are merged whatever their ranges, if there are
far more of them than at any hash.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from penstock.state.hash_ranges import HASH_END, HashRange, coalesced, hull, remaining, width_of

HASH, TIME = "#hash", "#time"  # the first two columns of every run
FAN = 4  # merge at least this many runs of similar density
ALIKE = 2  # a run is of similar density if it has at most this many times that of the densest newer one
LEAST_DENSITY = 2000  # runs with fewer rows are alike: what they cost does not depend on their rows
MOST_SLICES = 24  # above this number in a range, merge neighbours of any density
FRAGMENTED = 4  # small slices are merged if there are so many times as many as lie above each other
SMALL_ROWS = 4096  # of a slice: to look rows up in it takes about as long as to write it once
FINEST = 1024  # parts of the hashes: slices whose borders differ by less are treated alike


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


def outside(slices: Iterable[Slice], ranges: Sequence[HashRange]) -> tuple[Slice, ...]:
    """Return the parts of slices outside of `ranges`, which must not overlap."""
    return tuple(Slice(piece.run, part) for piece in slices for part in remaining([piece.range], ranges))


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
class MergeRange:
    """A range of hashes, and the slices whose rows in it are to be merged."""

    range: HashRange
    slices: tuple[Slice, ...]


@dataclass(frozen=True)
class _MergeCandidate:
    """A slice with the time at which its live rows start, its rows, and its density: the rows that it would have over
    all hashes. `broad`: its live rows span more than the limit of a merge."""

    slice: Slice
    start: int
    rows: int
    density: int
    broad: bool


def choose(rows_of: Mapping[Slice, int], expired_below: int, window: int, piece_bytes: int) -> list[MergeRange]:
    """Return what to merge, the ranges with most slices first. No slice is in two merges of one range.

    `rows_of` has the slices of a port and their rows. Rows below `expired_below` are dead. `window` is the length of
    the operator's window, in the unit of the times. A merge is rewritten as runs of about `piece_bytes` each.
    """
    if not rows_of:
        return []
    alive_span = max(s.run.max_time for s in rows_of) - expired_below
    limit, width = max(window, alive_span) // 2, width_of(coalesced(s.range for s in rows_of))
    pieces = [
        _piece(s, rows, width, expired_below, limit) for s, rows in rows_of.items() if not _is_full(s, piece_bytes)
    ]
    merges_of_small = _merges_of_fragmented([p for p in pieces if _is_small(p, piece_bytes)], limit)
    side_by_side = {s for merge in merges_of_small for s in merge.slices}
    others = [p for p in pieces if p.slice not in side_by_side]
    merges = [merge for column in _columns(others) for merge in _of_column(column, limit)]
    chosen = sorted([*merges_of_small, *_joined(merges)], key=lambda merge: -len(merge.slices))
    taken = {s for merge in chosen for s in merge.slices}
    dead = (s for s in rows_of if s not in taken and mostly_dead(s, expired_below))
    return [*chosen, *(MergeRange(s.range, (s,)) for s in dead)]


def is_fragmented(slices: Sequence[Slice], depth: int) -> bool:
    """Return whether many slices lie side by side, if at most `depth` have rows at one hash. Needs no access to the
    files."""
    return len(slices) >= FRAGMENTED * max(1, depth)


def mostly_dead(piece: Slice, expired_below: int) -> bool:
    """Return whether more than half of the run's rows are expired. Needs no access to the file."""
    return piece.run.median_time < expired_below


def most_slices(slices: Sequence[Slice]) -> int:
    """Return the largest number of slices that have rows at one hash, as far as their ranges show."""
    steps = sorted(step for s in slices for step in ((s.range.low, 1), (s.range.high, -1)))
    most = depth = 0
    for _, step in steps:
        depth += step
        most = max(most, depth)
    return most


def _is_small(piece: _MergeCandidate, piece_bytes: int) -> bool:
    """Return whether a slice is smaller than what merges write: those are not merged for being side by side, because
    the result would be as many slices again."""
    size = piece.rows * piece.slice.run.size // piece.slice.run.rows
    return piece.rows < SMALL_ROWS and size < piece_bytes // FRAGMENTED


def _merges_of_fragmented(small: Sequence[_MergeCandidate], limit: int) -> list[MergeRange]:
    """Return the merges of small slices that lie side by side. Each merges neighbours in time that span at most
    `limit`."""
    if not is_fragmented(together := [p.slice for p in small], most_slices(together)):
        return []
    narrow = sorted((p for p in small if not p.broad), key=lambda p: (p.start, p.slice.run.name, p.slice.range))
    batches = [[p.slice for p in small if p.broad], *_in_time(narrow, limit)]
    return [MergeRange(hull([s.range for s in some]), tuple(some)) for some in batches if len(some) >= FRAGMENTED]


def _in_time(pieces: Sequence[_MergeCandidate], limit: int) -> Iterator[list[Slice]]:
    """Yield slices, oldest first, in batches whose live rows span at most `limit`."""
    batch: list[Slice] = []
    start = 0
    for piece in pieces:
        if batch and piece.slice.run.max_time - start > limit:
            yield batch
            batch = []
        start = start if batch else piece.start
        batch.append(piece.slice)
    yield batch


def _is_full(piece: Slice, piece_bytes: int) -> bool:
    """Return whether a slice has one hash only, and so many bytes that merging it would not make fewer runs."""
    return piece.range.high - piece.range.low == 1 and piece.run.size >= piece_bytes // 2


def _piece(piece: Slice, rows: int, width: int, expired_below: int, limit: int) -> _MergeCandidate:
    start = max(piece.run.min_time, expired_below)
    density = max(LEAST_DENSITY, rows * width // (piece.range.high - piece.range.low))
    return _MergeCandidate(piece, start, rows, density, piece.run.max_time - start > limit)


def _columns(pieces: Sequence[_MergeCandidate]) -> Iterator[tuple[HashRange, list[_MergeCandidate]]]:
    """Yield the ranges between the borders of the slices, with the slices that cover each. Borders that lie closer
    together than a small part of all hashes count as one; slices that are not wider than that are looked at without
    the others."""
    near = max(1, width_of(coalesced(p.slice.range for p in pieces)) // max(FINEST, 2 * len(pieces)))
    narrow = [p for p in pieces if p.slice.range.high - p.slice.range.low < near]
    if narrow:
        yield from _columns(narrow)
    yield from _between_borders([p for p in pieces if p.slice.range.high - p.slice.range.low >= near], near)


def _between_borders(pieces: Sequence[_MergeCandidate], near: int) -> Iterator[tuple[HashRange, list[_MergeCandidate]]]:
    places = _places(pieces, near)
    begins: dict[int, list[_MergeCandidate]] = {}
    for piece in pieces:
        begins.setdefault(places[piece.slice.range.low], []).append(piece)
    covering: list[_MergeCandidate] = []
    for low, high in pairwise(sorted(set(places.values()))):
        covering = [p for p in covering if places[p.slice.range.high] > low] + begins.get(low, [])
        if covering:
            yield HashRange(low, high), covering


def _places(pieces: Sequence[_MergeCandidate], near: int) -> dict[int, int]:
    """Return for each border of a slice the border that it counts as: the last end within `near` of it, or else the
    first begin. So nothing is left of a slice that is merged from begin to end."""
    ends = {p.slice.range.high for p in pieces}
    cluster: list[int] = []
    places: dict[int, int] = {}
    for border in [*sorted(ends | {p.slice.range.low for p in pieces}), None]:
        if cluster and (border is None or border - cluster[0] >= near):
            place = max((one for one in cluster if one in ends), default=cluster[0])
            places |= dict.fromkeys(cluster, place)
            cluster = []
        if border is not None:
            cluster.append(border)
    return places


def _of_column(column: tuple[HashRange, list[_MergeCandidate]], limit: int) -> Iterator[MergeRange]:
    """Yield the merges of the slices that cover one range."""
    part, pieces = column
    if len(pieces) < FAN:
        return
    newest_first = sorted(pieces, key=lambda p: (p.broad, p.start, p.slice.run.name), reverse=True)
    broad, narrow = ([p for p in newest_first if p.broad is kind] for kind in (True, False))
    chosen = [*_alike(broad, None), *_alike(narrow, limit)]
    if not chosen and len(pieces) > MOST_SLICES:
        chosen = [tuple(newest_first[MOST_SLICES // 2 :])]
    yield from (MergeRange(part, tuple(p.slice for p in reversed(some))) for some in chosen)


def _alike(pieces: Sequence[_MergeCandidate], limit: int | None) -> Iterator[Sequence[_MergeCandidate]]:
    """Yield sequences of at least FAN neighbours, newest first, of which none is much denser than the newer ones, and
    that span at most `limit` of time (None: no limit)."""
    first = 0
    while first < len(pieces):
        end, densest = first + 1, pieces[first].density
        while end < len(pieces) and pieces[end].density <= ALIKE * densest and _spans(pieces[first : end + 1], limit):
            densest = max(densest, pieces[end].density)
            end += 1
        if end - first >= FAN:
            yield pieces[first:end]
            first = end
        else:
            first += 1


def _spans(pieces: Sequence[_MergeCandidate], limit: int | None) -> bool:
    """Return whether the live rows of some slices, newest first, span at most `limit` (None: any time)."""
    return limit is None or max(p.slice.run.max_time for p in pieces) - pieces[-1].start <= limit


def _joined(merges: Sequence[MergeRange]) -> list[MergeRange]:
    """Join merges of the same slices in neighbouring ranges, which must be sorted."""
    last: dict[tuple[Slice, ...], MergeRange] = {}
    done: list[MergeRange] = []
    for merge in merges:
        before = last.get(merge.slices)
        if before is not None and before.range.high == merge.range.low:
            merge = MergeRange(HashRange(before.range.low, merge.range.high), merge.slices)
        elif before is not None:
            done.append(before)
        last[merge.slices] = merge
    return [*done, *last.values()]
