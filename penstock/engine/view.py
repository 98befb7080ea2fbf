"""A site's state as one thing: the committed slices and the rows that have just arrived."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.checkpoint.run_files import RunCache
from penstock.progress.mark import Mark
from penstock.state.directory import HashRange
from penstock.state.runs import HASH, TIME, Slice

OPEN_RUNS = RunCache()  # one per process: a worker that is used again finds its runs open


class StateView:
    def __init__(self, folder: Path, slices: Sequence[Slice], fresh: pa.Table) -> None:
        self._folder, self._slices, self._fresh = folder, slices, fresh
        self._fresh_hashes = fresh.column(HASH).to_numpy()

    def least_time(self) -> int | None:
        """The least time of any row; None where there is no row."""
        times = [piece.run.min_time for piece in self._slices]
        if self._fresh.num_rows:
            times.append(pc.min(self._fresh.column(TIME)).as_py())
        return min(times, default=None)

    def gather(self, part: HashRange, upto: Mark) -> list[pa.Table]:
        """The rows of a range of hashes with times below `upto`: sorted tables, not yet combined."""
        tables = [_below(self._read(piece), upto) for piece in self._pieces(part) if not upto_before(upto, piece)]
        return [*tables, _below(self._fresh[part.rows(self._fresh_hashes)], upto)]

    def cuts(self, part: HashRange, most_rows: int) -> list[HashRange]:
        """The range cut into parts of about `most_rows` rows each, never inside one hash."""
        columns = [self._read(piece).column(HASH).to_numpy() for piece in self._pieces(part)]
        columns.append(self._fresh_hashes[part.rows(self._fresh_hashes)])
        count = -(-sum(map(len, columns)) // most_rows)
        longest = max(columns, key=len)
        inner = {int(longest[i * len(longest) // count]) for i in range(1, count)}
        bounds = sorted({part.low, part.high, *(b for b in inner if part.low < b < part.high)})
        return [HashRange(low, high) for low, high in pairwise(bounds)]

    def _pieces(self, part: HashRange) -> Iterator[Slice]:
        for piece in self._slices:
            if common := piece.range.intersect(part):
                yield Slice(piece.run, common)

    def _read(self, piece: Slice) -> pa.Table:
        return OPEN_RUNS.read(self._folder, piece)


def read_slices(folder: Path, slices: Iterable[Slice]) -> list[pa.Table]:
    return [OPEN_RUNS.read(folder, piece) for piece in slices]


def upto_before(upto: Mark, piece: Slice) -> bool:
    return not upto.ended and piece.run.min_time >= upto.at


def _below(rows: pa.Table, upto: Mark) -> pa.Table:
    if upto.ended or not rows.num_rows:
        return rows
    early = rows.column(TIME).to_numpy() < upto.at
    return rows if early.all() else rows.filter(pa.array(np.asarray(early)))
