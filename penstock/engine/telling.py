"""What a site tells of its groups after its step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from penstock.balance.round import Counts, Loads
from penstock.checkpoint.manifest import SiteState
from penstock.engine.job import EpochJob
from penstock.engine.loads import borders_of, counted_at, shared_out
from penstock.engine.storing import Storage
from penstock.engine.view import StateView
from penstock.engine.working import Work
from penstock.operators.arrange import hashes_of
from penstock.operators.base import Marks
from penstock.plan.program import Subquery
from penstock.state.directory import Hashes
from penstock.state.runs import Slice, about


class Telling:
    """A site whose step is done: what it had in `view`, and the `work` on it."""

    def __init__(
        self, job: EpochJob, subquery: Subquery, site: int, storage: Storage, view: StateView, work: Work
    ) -> None:
        self._directory, self._operator = job.directories[subquery.number], subquery.operator
        self._storage, self._view, self._work = storage, view, work
        self._borders = borders_of(self._directory, site)
        self._known = counted_at(job.runs, subquery.number, site)

    def load(self, state: SiteState, upto: Marks) -> Loads:
        fresh = [hashes_of(table) for tables in self._view.fresh for table in tables]
        rows, heaviest = self._borders.tallied(fresh)
        counts = self._known.of(self._borders, (*state.slices, *state.pending), self._hashes)
        (stored, size), (pending, _) = (self._summed(s, counts) for s in (state.slices, state.pending))
        if not self._operator.probes:  # what is due of stored rows is pending where it was not done
            for left in self._work.left(state.marks, upto):
                pending = np.where(self._borders.overlap(left), stored, pending)
        return Loads(
            rows=rows,
            heaviest=heaviest,
            seconds=shared_out(self._borders, self._work.worked, rows if self._operator.probes else rows + stored),
            state_rows=stored,
            state_bytes=size,
            pending=pending,
            last_used=np.where(rows > 0, 1, 0),
            done=self._done() if self._operator.probes else rows,
        )

    def _done(self) -> Counts:
        return self._borders.counted(self._view.hashes_inside(self._work.done))

    def _hashes(self, piece: Slice) -> Hashes | None:
        return hashes_of(self._storage.read(piece)) if self._storage.is_here(piece) else None

    def _summed(self, slices: Iterable[Slice], counts: Mapping[Slice, Counts]) -> tuple[Counts, Counts]:
        """The rows of slices, and about their bytes, group by group."""
        rows, size = np.zeros((2, len(self._borders)), np.int64)
        for piece in slices:
            counted = counts[piece] if piece in counts else self._spread_evenly(piece)
            rows += counted
            size += counted * (piece.run.size // piece.run.rows)
        return rows, size

    def _spread_evenly(self, piece: Slice) -> Counts:
        """A guess where its rows have yet to be fetched."""
        mine = self._borders.overlap(piece.range)
        return np.where(mine, about(piece, self._directory.sites) // max(1, int(mine.sum())), 0)
