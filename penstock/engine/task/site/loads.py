"""Statistics of a site after its step: of its groups, its heaviest keys and its cells; and of all sites of a subquery.

Every count is a search for the borders of all groups in a sorted column of hashes, so the cost per row is negligible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from penstock.balance.keys import CellLoads, KeyLoad, heaviest
from penstock.balance.stats import FloatArray, IntArray, Loads, RoundStats, SiteStatistics
from penstock.engine.task.site.storing import Storage
from penstock.engine.task.site.view import StateView
from penstock.engine.task.site.working import Work, Worked
from penstock.engine.wire.job import EpochJob, RouteReport, SiteReport
from penstock.operators.arrange import hashes_of
from penstock.operators.protocol import KeepsTimesApart, ProbingOperator, may_cut
from penstock.plan.program import Subquery
from penstock.progress.mark import Marks
from penstock.state.directory import Directory
from penstock.state.hash_ranges import Hashes, HashRange, common, point, remaining
from penstock.state.hot_keys import Cells
from penstock.state.model import SiteState
from penstock.state.runs import Slice, about

Kind = TypeVar("Kind", np.int64, np.float64)
MOST_COUNTED = 256  # sites whose counts a process caches
_COUNTED: dict[tuple[Path, int, int], Counted] = {}
TOLD = 4  # heaviest keys reported for each column
BLOCK = 64  # hashes per block when searching for the heaviest keys
Columns = Sequence[Sequence[Hashes]]


class SiteStatisticsCollector:
    """Collects the statistics of a site whose step is done, from the state in `view` and the `work` on it. Rows of
    cells are counted apart from those of groups.

    Invariant: `_all_borders` are the borders of the site's groups, followed by those of its cells.
    """

    def __init__(
        self, job: EpochJob, subquery: Subquery, site: int, storage: Storage, view: StateView, work: Work
    ) -> None:
        self._directory, self._operator, self._site = job.directories[subquery.number], subquery.operator, site
        self._storage, self._view, self._work = storage, view, work
        self._borders, self._cells = borders_of(self._directory, site), self._directory.cells_of(site)
        self._all_borders = self._borders.and_also(self._cells)
        self._known = counted_at(job.runs, subquery.number, site)

    def collect(self, state: SiteState, upto: Marks) -> SiteStatistics:
        """Return the statistics. `state` is the state after the step, `upto` the marks up to which work was due."""
        fresh = [[hashes_of(table) for table in tables] for tables in self._view.fresh]
        in_groups = [[without(hashes, self._cells) for hashes in port] for port in fresh]
        rows, heaviest, keys = self._rows_and_keys(in_groups)
        # Rows of cells are left out of the counts, so cached counts depend on the borders of groups and cells.
        counts = self._known.of(self._all_borders, (*state.slices, *state.pending), self._hashes_in_groups)
        (stored, size), (pending, _) = (self._summed(s, counts) for s in (state.slices, state.pending))
        probing = isinstance(self._operator, ProbingOperator)
        if not probing:  # stored rows are pending in ranges where due work was not done
            for left in self._work.left(state.marks, upto):
                pending = np.where(self._borders.overlap(left), stored, pending)
        (seconds, output), of_cells = self._came_to(fresh, rows if probing else rows + stored)
        load = Loads(
            rows=rows,
            heaviest=heaviest,
            seconds=seconds,
            state_rows=stored,
            state_bytes=size,
            pending=pending,
            last_used=np.where(rows > 0, 1, 0),
            done=self._done() if probing else rows,
            output=output,
        )
        return SiteStatistics(
            load, keys, cell_loads(self._directory, self._site, fresh, self._done_in_cells(), *of_cells)
        )

    def _rows_and_keys(self, columns: Columns) -> tuple[IntArray, IntArray, tuple[KeyLoad, ...]]:
        """Return the rows of each group, the most rows of one key in each group, and the heaviest keys."""
        if isinstance(self._operator, KeepsTimesApart):  # then there is one column per split, and they are alike
            return *self._borders.estimated(columns[0]), ()
        ports = [[KeyCounts.of(hashes) for hashes in port] for port in columns]
        rows, heaviest = self._borders.tallied(counts for port in ports for counts in port)
        return rows, heaviest, heavy_keys(ports) if may_cut(self._operator) else ()

    def _came_to(self, fresh: Columns, weights: IntArray) -> tuple[list[FloatArray], list[FloatArray]]:
        """Return (seconds, output rows) of the groups, and the same of the cells."""
        rows = [sum(rows_of(port, cell) for port in fresh) for cell in self._cells]
        both = np.concatenate((weights, np.asarray(rows, np.int64)))
        stats = shared_out(self._all_borders, self._work.worked, both)
        return [of[: len(weights)] for of in stats], [of[len(weights) :] for of in stats]

    def _done(self) -> IntArray:
        """Return the pending rows of each group that were worked on."""
        return self._borders.counted(self._view.hashes_inside(remaining(self._work.done, self._cells)))

    def _done_in_cells(self) -> list[int]:
        """Return the pending rows of each cell that were worked on."""
        columns = self._view.hashes_inside(common(sorted(self._work.done), self._cells))
        return [rows_of(columns, cell) for cell in self._cells]

    def _hashes_in_groups(self, piece: Slice) -> Hashes | None:
        """Return the hashes of a slice outside of cells; None if it has not been fetched yet."""
        hashes = self._storage.hashes_here(piece)
        return None if hashes is None else without(hashes, self._cells)

    def _summed(self, slices: Iterable[Slice], counts: Mapping[Slice, IntArray]) -> tuple[IntArray, IntArray]:
        """Return the rows of some slices, and their approximate bytes, by group."""
        rows, size = np.zeros((2, len(self._borders)), np.int64)
        for piece in slices:
            counted = counts[piece][: len(rows)] if piece in counts else self._spread_evenly(piece)
            rows += counted
            size += counted * (piece.run.size // piece.run.rows)
        return rows, size

    def _spread_evenly(self, piece: Slice) -> IntArray:
        """Estimate the rows of each group in a slice that has not been fetched yet."""
        mine = self._borders.overlap(piece.range)
        return np.where(mine, about(piece, self._directory.sites) // max(1, int(mine.sum())), 0)


def round_of(
    job: EpochJob,
    subquery: int,
    reports: Sequence[RouteReport | SiteReport],
    seconds: float,
    capacity: int,
    memory: int = 0,
    rest: float = 0.0,
) -> RoundStats:
    """Return the statistics of a subquery for one epoch of `seconds`, of which `rest` seconds were idle. All its site
    reports must have statistics."""
    directory = job.directories[subquery]
    sites = [report for report in reports if isinstance(report, SiteReport) and report.subquery == subquery]
    own = sorted(sites, key=lambda report: report.site)
    known = [report.statistics for report in own if report.statistics is not None]
    loads = [site.load for site in known]
    busy = np.asarray([report.time.seconds for report in own])
    return RoundStats(
        directory=directory,
        epochs=1,
        seconds=seconds,
        loads=Loads(**{f.name: _gathered([getattr(load, f.name) for load in loads], directory) for f in fields(Loads)}),
        busy=busy,
        share=np.full(len(busy), busy.max(initial=0.0) + rest),
        backlog=np.asarray([float(report.backlog) for report in own]),
        capacity=capacity,
        memory=memory,
        may_cut=may_cut(job.program.subqueries[subquery].operator),
        keys=heaviest(key for site in known for key in site.keys),
        cells=CellLoads.of_sites([site.cells for site in known]),
    )


def _gathered(by_site: Sequence[npt.NDArray[Kind]], directory: Directory) -> npt.NDArray[Kind]:
    """Return the figures of all sites in the order of the directory."""
    known = np.concatenate(by_site)
    gathered = np.empty_like(known)
    gathered[directory.places_by_home] = known
    return gathered


@dataclass(frozen=True, eq=False)
class Borders:
    """The first and the last hash of each group of a site, in the order of the directory."""

    first: Hashes
    last: Hashes

    def __len__(self) -> int:
        return len(self.first)

    def same(self, other: Borders) -> bool:
        """Return whether the borders are equal."""
        return np.array_equal(self.first, other.first) and np.array_equal(self.last, other.last)

    def counted(self, columns: Iterable[Hashes]) -> IntArray:
        """Return how many rows of some sorted columns each group has."""
        total = np.zeros(len(self), np.int64)
        for hashes in columns:
            total += np.searchsorted(hashes, self.last, side="right") - np.searchsorted(hashes, self.first)
        return total

    def tallied(self, columns: Iterable[KeyCounts]) -> tuple[IntArray, IntArray]:
        """Return the rows of each group, and the most rows that one hash of the group has in a column. The columns must
        only have rows of these groups."""
        total, most = np.zeros((2, len(self)), np.int64)
        for counts in columns:
            begin = np.searchsorted(counts.hashes, self.first)
            filled = np.diff(begin, append=len(counts.hashes)) > 0
            total += np.diff(counts.starts[begin], append=counts.starts[-1])
            if filled.any():
                most[filled] = np.maximum(most[filled], np.maximum.reduceat(counts.rows, begin[filled]))
        return total, most

    def estimated(self, columns: Sequence[Hashes]) -> tuple[IntArray, IntArray]:
        """Return the same as `tallied`, but look only at the longest column for the most rows of one hash."""
        total = np.zeros(len(self), np.int64)
        for hashes in columns:
            total += np.diff(np.searchsorted(hashes, self.first), append=len(hashes))
        _, most = self.tallied([KeyCounts.of(max(columns, key=len))] if columns else [])
        return total, np.maximum(most, np.minimum(total, 1))

    def and_also(self, ranges: Sequence[HashRange]) -> Borders:
        """Return these borders followed by those of some ranges."""
        first = np.asarray([r.low for r in ranges], np.uint64)
        last = np.asarray([r.high - 1 for r in ranges], np.uint64)
        return Borders(np.concatenate((self.first, first)), np.concatenate((self.last, last)))

    def overlap(self, part: HashRange) -> npt.NDArray[np.bool_]:
        """Return a mask of the groups that have hashes in a range."""
        return (self.first <= np.uint64(part.high - 1)) & (self.last >= np.uint64(part.low))


class Counted:
    """A cache of the rows of each group in each slice. Slices do not change, so counts stay valid while the borders are
    the same. Invariant: `_counts` has the slices of the last call only."""

    def __init__(self) -> None:
        self._borders = Borders(np.zeros(0, np.uint64), np.zeros(0, np.uint64))
        self._counts: dict[Slice, IntArray] = {}

    def of(
        self, borders: Borders, slices: Iterable[Slice], read: Callable[[Slice], Hashes | None]
    ) -> dict[Slice, IntArray]:
        """Return the counts of the slices that are cached or can be read now (`read` returns None otherwise)."""
        known = self._counts if self._borders.same(borders) else {}
        self._borders, self._counts = borders, {}
        for piece in slices:
            if piece in known:
                self._counts[piece] = known[piece]
            elif (hashes := read(piece)) is not None:
                self._counts[piece] = borders.counted([hashes])
        return self._counts


def counted_at(runs: Path, subquery: int, site: int) -> Counted:
    """Return the cache of counts for a site, and evict the least recently used one if there are too many."""
    place = (runs, subquery, site)
    _COUNTED[place] = found = _COUNTED.pop(place, None) or Counted()
    if len(_COUNTED) > MOST_COUNTED:
        _COUNTED.pop(next(iter(_COUNTED)))
    return found


def borders_of(directory: Directory, site: int) -> Borders:
    """Return the borders of a site's groups."""
    own = directory.places_of(site)
    return Borders(directory.lows[own], directory.lasts[own])


def shared_out(borders: Borders, worked: Sequence[Worked], weights: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the seconds and the output rows of work items by group: those of each item are divided among the groups in
    its range, by weight."""
    seconds, output = np.zeros((2, len(borders)))
    for item in worked:
        mine = np.where(borders.overlap(item.range), weights + 1.0, 0.0)
        if total := mine.sum():
            seconds += mine * (item.seconds / total)
            output += mine * (item.output / total)
    return seconds, output


def without(hashes: Hashes, ranges: Sequence[HashRange]) -> Hashes:
    """Return a sorted column without the hashes of some ranges."""
    gone = [np.arange(len(hashes))[part.rows(hashes)] for part in ranges]
    return np.delete(hashes, np.concatenate(gone)) if gone else hashes


@dataclass(frozen=True, eq=False)
class KeyCounts:
    """The distinct hashes of a sorted column, and the first row of each. Invariant: `starts` has one entry more than
    `hashes`, which is the number of rows."""

    hashes: Hashes
    starts: IntArray

    @staticmethod
    def of(column: Hashes) -> KeyCounts:
        """Count the rows of each hash in a sorted column."""
        starts = np.flatnonzero(np.concatenate(([True], column[1:] != column[:-1]))) if len(column) else np.arange(0)
        return KeyCounts(column[starts], np.append(starts, len(column)))

    @cached_property
    def rows(self) -> IntArray:
        """Return the number of rows of each hash."""
        return np.diff(self.starts)

    def rows_of(self, hashes: Hashes) -> IntArray:
        """Return the number of rows of the given hashes; 0 for a hash that is not in the column."""
        begin, end = (np.searchsorted(self.hashes, hashes, side=side) for side in ("left", "right"))
        return np.asarray(self.starts[end] - self.starts[begin])

    def heaviest(self, most: int) -> Hashes:
        """Return `most` hashes with the most rows (all hashes if there are fewer), unsorted. Only hashes with at least
        as many rows as the `most`-th largest block maximum are partitioned: partitioning all hashes takes fifty times
        as long."""
        if len(self.hashes) <= most:
            return self.hashes
        largest = np.maximum.reduceat(self.rows, np.arange(0, len(self.rows), BLOCK))
        least = np.partition(largest, -most)[-most] if len(largest) > most else 0
        able = np.flatnonzero(self.rows >= least)
        return self.hashes[able[np.argpartition(self.rows[able], -most)[-most:]]]


def heavy_keys(ports: Sequence[Sequence[KeyCounts]]) -> tuple[KeyLoad, ...]:
    """Return the heaviest keys of each column, with their rows by port over all columns."""
    heavy = [counts.heaviest(TOLD) for port in ports for counts in port]
    found = np.unique(np.concatenate(heavy)) if heavy else np.zeros(0, np.uint64)
    none = np.zeros(len(found), np.int64)
    rows = np.stack([sum((counts.rows_of(found) for counts in port), none) for port in ports], axis=1)
    return tuple(KeyLoad(hash_, tuple(by_port)) for hash_, by_port in zip(found.tolist(), rows.tolist(), strict=True))


def rows_of(columns: Sequence[Hashes], part: HashRange) -> int:
    """Return the number of rows of some sorted columns in a range."""
    found = (part.rows(hashes) for hashes in columns)
    return sum(rows.stop - rows.start for rows in found)


def cell_loads(
    directory: Directory, site: int, columns: Columns, done: Sequence[int], seconds: FloatArray, output: FloatArray
) -> CellLoads:
    """Return the statistics of the cells of a site. `done`, `seconds` and `output` have one entry for each cell of the
    site."""
    cut, copied, worked_on = np.zeros((3, len(directory.spread)), np.int64)
    took, put_out = np.zeros((2, len(directory.spread)))
    own = [n for n, cells in enumerate(directory.spread) if site in cells.sites]
    for n in own:
        cut[n], copied[n] = _parted(directory.spread[n], columns)
    worked_on[own], took[own], put_out[own] = done, seconds, output
    return CellLoads(cut, copied, worked_on, took, put_out)


def _parted(cells: Cells, columns: Columns) -> tuple[int, int]:
    """Return the rows of a spread hash: on the port that is cut, and on the others, which are copied to every cell."""
    counts = [rows_of(port, point(cells.hash)) for port in columns]
    return counts[cells.cut], sum(counts) - counts[cells.cut]
