"""State on its way to and from files: reading slices, writing runs, and keeping the number of runs small."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pyarrow as pa

from penstock.checkpoint.run_files import RunCache, write_run
from penstock.checkpoint.store import staged_name
from penstock.operators.arrange import hashes_of, times_of
from penstock.operators.base import Stored
from penstock.state.compaction import MOST_SLICES, choose
from penstock.state.directory import HashRange
from penstock.state.runs import Slice

OPEN_RUNS = RunCache()  # one per process: a worker that is used again finds its runs open
Combine = Callable[[int, Sequence[pa.Table]], pa.Table]


class Storage:
    """The runs of one site in one epoch. `part` tells the sites of an epoch apart in the names of new runs."""

    def __init__(self, folder: Path, epoch: int, part: str) -> None:
        self._folder, self._epoch, self._part = folder, epoch, part

    def read(self, piece: Slice) -> pa.Table:
        return OPEN_RUNS.read(self._folder, piece)

    def stored(self, piece: Slice) -> Stored:
        return Stored(self.read(piece), piece.run.min_time, piece.run.max_time)

    def write(self, port: int, rows: pa.Table) -> list[Slice]:
        """A new run of sorted rows, as one slice; nothing where there are no rows."""
        if not rows.num_rows:
            return []
        run = write_run(self._folder, staged_name(self._epoch, self._part, uuid.uuid4().hex, "arrow"), rows, port)
        hashes = hashes_of(rows)
        return [Slice(run, HashRange(int(hashes[0]), int(hashes[-1]) + 1))]

    def compacted(
        self, slices: list[Slice], port: int, expired_below: int, span: int, combine: Combine, may: Callable[[], bool]
    ) -> list[Slice]:
        """Slices of one port without those that have expired, and with neighbours rewritten as one run while `may`
        says so; always, where there are far too many."""
        slices = [piece for piece in slices if piece.run.max_time >= expired_below]
        for group in choose(slices, expired_below, span):
            if not may() and len(slices) <= MOST_SLICES:
                break
            rewritten = self._rewritten(group, port, expired_below, combine)
            slices = [piece for piece in slices if piece not in group] + rewritten
        return slices

    def _rewritten(self, group: Sequence[Slice], port: int, expired_below: int, combine: Combine) -> list[Slice]:
        return self.write(port, alive(combine(port, [self.read(piece) for piece in group]), expired_below))

    def keep_open(self, names: Iterable[str]) -> None:
        OPEN_RUNS.keep_only(self._folder, names)


def alive(rows: pa.Table, expired_below: int) -> pa.Table:
    """The state rows that have not expired; the table itself if that is all of them."""
    if not rows.num_rows:
        return rows
    needed = times_of(rows) >= expired_below
    return rows if needed.all() else rows.filter(pa.array(needed))


def of_port(slices: Iterable[Slice], port: int) -> list[Slice]:
    return [piece for piece in slices if piece.run.port == port]
