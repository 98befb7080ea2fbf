"""What a site tells of its groups, of its heaviest keys and of its cells after its step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from penstock.balance.keys import KeyLoad
from penstock.balance.stats import Counts, Figures, Loads, Told
from penstock.checkpoint.manifest import SiteState
from penstock.engine.task.site.key_loads import Columns, KeyCounts, cell_loads, heavy_keys, rows_of, without
from penstock.engine.task.site.loads import borders_of, counted_at, shared_out
from penstock.engine.task.site.storing import Storage
from penstock.engine.task.site.view import StateView
from penstock.engine.task.site.working import Work
from penstock.engine.wire.job import EpochJob
from penstock.operators.arrange import hashes_of
from penstock.operators.protocol import Marks, may_cut
from penstock.plan.program import Subquery
from penstock.state.hash_ranges import Hashes, common, remaining
from penstock.state.runs import Slice, about


class Telling:
    """A site whose step is done: what it had in `view`, and the `work` on it. Rows of cells are told apart from those
    of groups. Invariant: `_all_borders` are those of its groups, and behind them those of its cells."""

    def __init__(
        self, job: EpochJob, subquery: Subquery, site: int, storage: Storage, view: StateView, work: Work
    ) -> None:
        self._directory, self._operator, self._site = job.directories[subquery.number], subquery.operator, site
        self._storage, self._view, self._work = storage, view, work
        self._borders, self._cells = borders_of(self._directory, site), self._directory.cells_of(site)
        self._all_borders = self._borders.and_also(self._cells)
        self._known = counted_at(job.runs, subquery.number, site)

    def told(self, state: SiteState, upto: Marks) -> Told:
        fresh = [[hashes_of(table) for table in tables] for tables in self._view.fresh]
        in_groups = [[without(hashes, self._cells) for hashes in port] for port in fresh]
        rows, heaviest, keys = self._rows_and_keys(in_groups)
        # Which hashes are in cells is part of what was counted, so counts are kept by the borders of both.
        counts = self._known.of(self._all_borders, (*state.slices, *state.pending), self._hashes_in_groups)
        (stored, size), (pending, _) = (self._summed(s, counts) for s in (state.slices, state.pending))
        if not self._operator.probes:  # what is due of stored rows is pending where it was not done
            for left in self._work.left(state.marks, upto):
                pending = np.where(self._borders.overlap(left), stored, pending)
        (seconds, output), of_cells = self._came_to(fresh, rows if self._operator.probes else rows + stored)
        load = Loads(
            rows=rows,
            heaviest=heaviest,
            seconds=seconds,
            state_rows=stored,
            state_bytes=size,
            pending=pending,
            last_used=np.where(rows > 0, 1, 0),
            done=self._done() if self._operator.probes else rows,
            output=output,
        )
        return Told(load, keys, cell_loads(self._directory, self._site, fresh, self._done_in_cells(), *of_cells))

    def _rows_and_keys(self, columns: Columns) -> tuple[Counts, Counts, tuple[KeyLoad, ...]]:
        """The rows of groups, the most that one of their keys has, and the heaviest keys."""
        if self._operator.keeps_times_apart:  # then there is a column of each split, and they are alike
            return *self._borders.estimated(columns[0]), ()
        ports = [[KeyCounts.of(hashes) for hashes in port] for port in columns]
        rows, heaviest = self._borders.tallied(counts for port in ports for counts in port)
        return rows, heaviest, heavy_keys(ports) if may_cut(self._operator) else ()

    def _came_to(self, fresh: Columns, weights: Counts) -> tuple[list[Figures], list[Figures]]:
        """The seconds of groups and the rows that they put out, and those of cells."""
        rows = [sum(rows_of(port, cell) for port in fresh) for cell in self._cells]
        both = np.concatenate((weights, np.asarray(rows, np.int64)))
        figures = shared_out(self._all_borders, self._work.worked, both)
        return [of[: len(weights)] for of in figures], [of[len(weights) :] for of in figures]

    def _done(self) -> Counts:
        return self._borders.counted(self._view.hashes_inside(remaining(self._work.done, self._cells)))

    def _done_in_cells(self) -> list[int]:
        columns = self._view.hashes_inside(common(sorted(self._work.done), self._cells))
        return [rows_of(columns, cell) for cell in self._cells]

    def _hashes_in_groups(self, piece: Slice) -> Hashes | None:
        hashes = self._storage.hashes_here(piece)
        return None if hashes is None else without(hashes, self._cells)

    def _summed(self, slices: Iterable[Slice], counts: Mapping[Slice, Counts]) -> tuple[Counts, Counts]:
        """The rows of slices, and about their bytes, group by group."""
        rows, size = np.zeros((2, len(self._borders)), np.int64)
        for piece in slices:
            counted = counts[piece][: len(rows)] if piece in counts else self._spread_evenly(piece)
            rows += counted
            size += counted * (piece.run.size // piece.run.rows)
        return rows, size

    def _spread_evenly(self, piece: Slice) -> Counts:
        """A guess where its rows have yet to be fetched."""
        mine = self._borders.overlap(piece.range)
        return np.where(mine, about(piece, self._directory.sites) // max(1, int(mine.sum())), 0)
