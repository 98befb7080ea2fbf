"""What a site tells of its groups, of its heaviest keys and of its cells after its step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from penstock.balance.round import Counts, Figures, Loads, Told
from penstock.checkpoint.manifest import SiteState
from penstock.engine.key_loads import Columns, cell_loads, heavy_keys, rows_of, without
from penstock.engine.loads import borders_of, shared_out
from penstock.engine.marks import behind
from penstock.engine.storing import Storage
from penstock.operators.arrange import hashes_of
from penstock.operators.base import Marks, Operator, may_cut
from penstock.state.directory import Directory, HashRange
from penstock.state.runs import Slice

Worked = Sequence[tuple[HashRange, float]]  # items, each with the seconds that it took


class Telling:
    """A site of an operator whose step is done. `fresh[port]` are the hashes of the rows that had arrived, `state` is
    what came of it."""

    def __init__(
        self, directory: Directory, site: int, operator: Operator, storage: Storage, fresh: Columns, state: SiteState
    ) -> None:
        self._directory, self._site, self._operator, self._storage = directory, site, operator, storage
        self._fresh, self._state = fresh, state
        self._borders, self._cells = borders_of(directory, site), directory.cells_of(site)

    def told(self, worked: Worked, upto: Marks) -> Told:
        columns = [[without(hashes, self._cells) for hashes in port] for port in self._fresh]
        in_groups = [hashes for port in columns for hashes in port]
        rows, (stored, size) = self._borders.counted(in_groups), self._stored(self._state.slices)
        seconds, of_cells = self._seconds(worked, rows if self._operator.probes else rows + stored)
        load = Loads(
            rows=rows,
            heaviest=self._borders.heaviest(in_groups),
            seconds=seconds,
            state_rows=stored,
            state_bytes=size,
            pending=self._pending(stored, upto),
            last_used=np.where(rows > 0, 1, 0),
        )
        keys = heavy_keys(columns) if may_cut(self._operator) else ()
        return Told(load, keys, cell_loads(self._directory, self._site, self._fresh, of_cells))

    def _seconds(self, worked: Worked, weights: Counts) -> tuple[Figures, Figures]:
        """The seconds of groups, and those of cells."""
        rows = [sum(rows_of(port, cell) for port in self._fresh) for cell in self._cells]
        both = self._borders.and_also(self._cells)
        seconds = shared_out(both, worked, np.concatenate((weights, np.asarray(rows, np.int64))))
        return seconds[: len(weights)], seconds[len(weights) :]

    def _pending(self, stored: Counts, upto: Marks) -> Counts:
        """What is due of stored rows counts as pending where it was not done."""
        pending, _ = self._stored(self._state.pending)
        if not self._operator.probes:
            for lagging in (m.range for m in self._state.marks if behind(m.marks, upto)):
                pending = np.where(self._borders.overlap(lagging), stored, pending)
        return pending

    def _stored(self, slices: Iterable[Slice]) -> tuple[Counts, Counts]:
        """The rows of slices, and about their bytes, group by group."""
        rows, size = np.zeros((2, len(self._borders)), np.int64)
        for piece in slices:
            counted = self._borders.counted([without(hashes_of(self._storage.read(piece)), self._cells)])
            rows += counted
            size += counted * (piece.run.size // piece.run.rows)
        return rows, size
