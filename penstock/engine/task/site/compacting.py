"""Compaction of the runs of a site: slices are merged by range of hashes, in pieces of bounded size.

A piece is rewritten as one run. The slices keep the hashes outside of it, so compaction can stop after every piece and
go on in a later epoch, and it needs no more memory than a piece takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.engine.task.site.storing import Storage, alive
from penstock.engine.task.site.view import PartLimits, SliceRows, cut
from penstock.operators.arrange import gathered
from penstock.state.hash_ranges import HashRange, remaining
from penstock.state.runs import (
    FAN,
    MOST_SLICES,
    MergeRange,
    Slice,
    choose,
    is_fragmented,
    most_slices,
    mostly_dead,
    restrict,
)

Combine = Callable[[int, Sequence[pa.Table]], pa.Table]


@dataclass(frozen=True)
class Compaction:
    """The compaction of one port. Rows with a time below `expired_below` are dropped; `span` is the lifetime of rows,
    `combine` merges sorted tables of the port. A piece is started only while `may` returns True, and if the disk has
    room for it."""

    storage: Storage
    port: int
    combine: Combine
    expired_below: int
    span: int
    may: Callable[[], bool]

    def run(self, slices: Sequence[Slice]) -> list[Slice]:
        """Return the slices without those that have expired, and with neighbours rewritten as larger runs. Slices that
        have not been fetched yet are not rewritten."""
        current = [piece for piece in slices if piece.run.max_time >= self.expired_below]
        depth = most_slices(current)
        dead = any(mostly_dead(piece, self.expired_below) for piece in current)
        if not (depth >= FAN or dead or is_fragmented(current, depth)):
            return current  # nothing needs to be read
        urgent = depth > MOST_SLICES  # then one piece is rewritten whatever the time
        done: dict[Slice, list[HashRange]] = {}
        written: list[Slice] = []
        for merge, part in self._pieces(current):
            if not self.storage.has_room(self._written_size(merge)):
                continue  # whatever the number of slices: lookups take longer, and the query goes on
            if not (urgent or self.may()):
                break
            urgent = False
            written += self._merged(list(restrict(merge.slices, [part])), part)
            for piece in merge.slices:
                done.setdefault(piece, []).append(part)
        return [*self._left(current, done), *written]

    def _pieces(self, slices: Sequence[Slice]) -> Iterator[tuple[MergeRange, HashRange]]:
        """Yield what to merge, in parts of a piece's size unless all rows of a part have one hash."""
        here = {piece: self.storage.rows_of(piece) for piece in slices if self.storage.is_here(piece)}
        for merge in choose(here, self.expired_below, self.span, self.storage.budget.piece):
            sources = [SliceRows(self.storage, piece) for piece in merge.slices]
            yield from (
                (merge, part) for part in cut(merge.range, sources, PartLimits(bytes=self.storage.budget.piece))
            )

    def _written_size(self, merge: MergeRange) -> int:
        """Return about how many bytes a piece of a merge takes, at most. A single slice is rewritten if half of its
        rows have expired."""
        whole = sum(piece.run.size for piece in merge.slices)
        return min(self.storage.budget.piece, whole if len(merge.slices) > 1 else whole // 2)

    def _merged(self, pieces: Sequence[Slice], part: HashRange) -> list[Slice]:
        """Write the rows of some slices, which are in a part of the hashes, as new runs."""
        written: list[Slice] = []
        most, sizes = self.storage.budget.piece, [piece.run.size for piece in pieces]
        if sum(sizes) > most:  # those of whole runs: then the rows themselves are measured
            sizes = [self.storage.size(piece) for piece in pieces]
        size_of = dict(zip(pieces, sizes, strict=True))
        for batch in gathered(pieces, most, size_of.__getitem__):
            rows = self.combine(self.port, [self.storage.read(piece) for piece in batch])
            written += self.storage.write(self.port, alive(rows, self.expired_below), part)
        return written

    def _left(self, slices: Sequence[Slice], done: Mapping[Slice, Sequence[HashRange]]) -> Iterator[Slice]:
        """Yield the slices without the ranges in which they were rewritten, and without those that have no rows
        left."""
        for piece in slices:
            if piece not in done:
                yield piece
                continue
            rest = (Slice(piece.run, part) for part in remaining([piece.range], done[piece]))
            yield from (part for part in rest if self.storage.rows_of(part))
