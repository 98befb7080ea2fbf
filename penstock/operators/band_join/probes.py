"""Search for the partners of many probes among rows sorted by hash and time. A probe is the hash and the interval of
time in which the partners of a row lie.

The cost grows linearly with the probes and logarithmically with the rows. Probes are sorted, so that neighbours access
neighbouring memory, and they are processed in blocks that fit the cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from penstock.kernels.arrays import Flags, Indices, Times, Words
from penstock.operators.band_join.state_rows import StateRows
from penstock.progress.mark import MAX_TIME, MIN_TIME

_FURTHEST = MAX_TIME - MIN_TIME  # shifted by this, every time reaches a limit


_PROBES = 1 << 13  # probes per block
_SAMPLED = 64  # one of this many hashes is in the sample; 64 hashes fill a few cache lines
_SPARSE = 32  # rows per probe above which the sample pays off
_PAIRS = 1 << 17  # pairs per block: the memory of a join beyond its input is proportional to this


@dataclass(frozen=True)
class Probes:
    """Search intervals: the partners of row `positions[n]` have the hash `hashes[n]` and a time from `least[n]` to
    `most[n]`.

    Invariant: sorted by hash; all columns have the same length.
    """

    positions: Indices
    hashes: Words
    least: Times
    most: Times

    def __len__(self) -> int:
        return len(self.hashes)

    def at(self, which: slice | Indices | Flags) -> Probes:
        """Return the selected probes."""
        return Probes(self.positions[which], self.hashes[which], self.least[which], self.most[which])

    def within(self, piece: StateRows) -> Probes:
        """Return the probes that may have a partner in the piece."""
        if not len(piece):
            return self.at(slice(0, 0))
        low = int(np.searchsorted(self.hashes, piece.hashes[0]))
        high = int(np.searchsorted(self.hashes, piece.hashes[-1], side="right"))
        near = self.at(slice(low, high))
        meets = (near.most >= piece.least) & (near.least <= piece.largest)
        return near if meets.all() else near.at(np.flatnonzero(meets))


def probes(hashes: Words, intervals: Iterable[tuple[Times, int | None, int | None]]) -> Probes:
    """Build the probes for partners whose time lies, for every (times, before, after), in [times - before, times +
    after] (None: no such bound). Rows without a possible partner are excluded."""
    least, most = np.full(len(hashes), MIN_TIME), np.full(len(hashes), MAX_TIME)
    possible = np.ones(len(hashes), dtype=np.bool_)
    for times, before, after in intervals:
        if before is not None:
            np.maximum(least, _shifted(times, -before), out=least)
            possible &= ~_beyond(times, -before, above=True)
        if after is not None:
            np.minimum(most, _shifted(times, after), out=most)
            possible &= ~_beyond(times, after, above=False)
    possible &= least <= most
    found = Probes(np.arange(len(hashes)), hashes, least, most)
    return found if possible.all() else found.at(np.flatnonzero(possible))


def _shifted(times: Times, by: int) -> Times:
    """Return the times shifted by a span of any size, saturated at the limits of a 64-bit time."""
    by = max(-_FURTHEST, min(_FURTHEST, by))
    while by:
        step = max(-MAX_TIME, min(MAX_TIME, by))
        by -= step
        times = (np.minimum(times, MAX_TIME - step) if step > 0 else np.maximum(times, MIN_TIME - step)) + step
    return times


def _beyond(times: Times, by: int, above: bool) -> Flags:
    """Return flags of the times that leave the 64-bit range above (or below) when shifted by `by`."""
    return times > MAX_TIME - by if above else times < MIN_TIME - by


@dataclass(frozen=True)
class CandidateRanges:
    """Candidates of positions: `positions[n]` has the rows `first[n]` .. `end[n] - 1`, at least one."""

    positions: Indices
    first: Indices
    end: Indices

    def __len__(self) -> int:
        return len(self.positions)

    def at(self, which: Indices) -> CandidateRanges:
        """Return the ranges at these indices."""
        return CandidateRanges(self.positions[which], self.first[which], self.end[which])

    def pairs(self) -> Iterator[tuple[Indices, Indices]]:
        """Yield each position with each of its rows, in blocks of bounded size."""
        ends = np.cumsum(self.end - self.first)
        starts = ends - (self.end - self.first)
        total = int(ends[-1]) if len(ends) else 0
        for low in range(0, total, _PAIRS):
            high = min(low + _PAIRS, total)
            part = slice(int(np.searchsorted(ends, low, side="right")), int(np.searchsorted(starts, high)))
            counts = np.minimum(ends[part], high) - np.maximum(starts[part], low)
            rows = np.repeat(self.first[part] - starts[part], counts)
            rows += np.arange(low, high)
            yield np.repeat(self.positions[part], counts), rows


def candidates(piece: StateRows, probes: Probes) -> CandidateRanges:
    """Return the rows of the piece that have the hash of a probe and a time in its interval."""
    near = probes.within(piece)
    starts = np.searchsorted(piece.hashes, near.hashes[::_PROBES])
    lasts = np.append(near.hashes[_PROBES - 1 :: _PROBES], near.hashes[-1:])[: len(starts)]
    stops = np.searchsorted(piece.hashes, lasts, side="right")
    found = [_NONE]
    for number, (start, stop) in enumerate(zip(starts.tolist(), stops.tolist(), strict=True)):
        block = near.at(slice(number * _PROBES, (number + 1) * _PROBES))
        found.append(_in_block(piece.hashes[start:stop], piece.times[start:stop], block, start))
    return CandidateRanges(
        *(np.concatenate(parts) for parts in zip(*((r.positions, r.first, r.end) for r in found), strict=True))
    )


_NONE = CandidateRanges(*(np.zeros(0, dtype=np.int64) for _ in range(3)))


def _in_block(hashes: Words, times: Times, probes: Probes, offset: int) -> CandidateRanges:
    """Return the candidates of a block of probes. `offset` is the number of the first row."""
    first, end = _groups(hashes, probes.hashes)
    hits = np.flatnonzero(first < end)
    if len(hits) < len(probes):
        first, end, probes = first[hits], end[hits], probes.at(hits)
    if not len(hits):
        return _NONE
    first = _advanced(times, first, end, probes.least, np.less)
    end = _advanced(times, first, end, probes.most, np.less_equal)
    ranges = CandidateRanges(probes.positions, first + offset, end + offset)
    hits = np.flatnonzero(first < end)
    return ranges if len(hits) == len(ranges) else ranges.at(hits)


def _groups(hashes: Words, wanted: Words) -> tuple[Indices, Indices]:
    """Return the start and end of the rows with each wanted hash. Each distinct hash is searched for once."""
    heads = np.ones(len(wanted), dtype=np.bool_)
    np.not_equal(wanted[1:], wanted[:-1], out=heads[1:])
    if heads.all():
        return _groups_of_different(hashes, wanted)
    numbers = np.cumsum(heads) - 1
    first, end = _groups_of_different(hashes, wanted[heads])
    return first.take(numbers), end.take(numbers)


def _groups_of_different(hashes: Words, wanted: Words) -> tuple[Indices, Indices]:
    """Return the start and end of the rows with each wanted hash; the wanted hashes must be distinct."""
    first = first_at_or_above(hashes, wanted)
    if not len(hashes):
        return first, first
    steps = 0  # galloping search: double the step until it leaves every group, because most groups are small
    while _is_in_group(hashes, wanted, first + ((1 << steps) - 1)).any():
        steps += 1
    end = first.copy()
    for step in _halving(steps):
        end += np.multiply(_is_in_group(hashes, wanted, end + (step - 1)), step, dtype=np.int64)
    return first, end


def first_at_or_above(hashes: Words, wanted: Words) -> Indices:
    """Return the insertion point of each wanted hash. If there are far more hashes than probes, search a sample of the
    hashes first, then the few adjacent rows between two samples, to save cache misses."""
    if len(hashes) < _SPARSE * len(wanted):
        return np.searchsorted(hashes, wanted)
    low = np.searchsorted(np.ascontiguousarray(hashes[_SAMPLED - 1 :: _SAMPLED]), wanted) * _SAMPLED
    for step in _halving(_SAMPLED.bit_length() - 1):
        behind = hashes.take(low + (step - 1), mode="clip") < wanted
        low += np.multiply(behind, step, dtype=np.int64)
    return np.minimum(low, len(hashes))


def _is_in_group(hashes: Words, wanted: Words, rows: Indices) -> Flags:
    """Return whether each row exists and has the wanted hash."""
    inside: Flags = hashes.take(rows, mode="clip") == wanted
    inside &= rows < len(hashes)
    return inside


def _halving(steps: int) -> Iterator[int]:
    """Return the step widths of a binary search of `steps` steps, the largest first. All searches of a block take the
    same steps, so that they need no branches."""
    return (1 << bit for bit in reversed(range(steps)))


def _advanced(times: Times, first: Indices, end: Indices, bounds: Times, before: np.ufunc) -> Indices:
    """Return the first row of each range whose time is not `before` its bound; the end of the range if there is
    none."""
    low = first.copy()
    for step in _halving(int((end - first).max()).bit_length()):
        last = low + (step - 1)
        skip = before(times.take(last, mode="clip"), bounds)
        skip &= last < end
        low += np.multiply(skip, step, dtype=np.int64)
    return low
