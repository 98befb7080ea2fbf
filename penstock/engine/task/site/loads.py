"""Statistics of a site after its step: of its groups, its heaviest keys, its cells and its memory; and of all sites of
a subquery."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from penstock.balance.keys import CellLoads, KeyLoad, heaviest
from penstock.balance.stats import FloatArray, IntArray, Loads, MemoryUse, RoundStats, SiteStatistics
from penstock.engine.task.site.counting import KeyCounts, OutputByGroup, SiteBorders, counted_at
from penstock.engine.task.site.parts import SiteParts
from penstock.engine.task.site.storing import Storage
from penstock.engine.task.site.working import Worked
from penstock.engine.wire.job import EpochJob, RouteReport, SiteReport
from penstock.operators.arrange import hashes_of
from penstock.operators.protocol import KeepsTimesApart, ProbingOperator, may_cut
from penstock.plan.program import Subquery
from penstock.state.directory import Directory
from penstock.state.hash_ranges import Hashes, HashRange, common, point, remaining
from penstock.state.hot_keys import Cells
from penstock.state.model import SiteState
from penstock.state.runs import Slice, about
from penstock.storage.memory import memory_limit, resident_bytes

Number = TypeVar("Number", np.int64, np.float64)
MOST_HEAVY_KEYS = 4  # heaviest keys reported for each column
HashColumns = Sequence[Sequence[Hashes]]


@dataclass(frozen=True, eq=False)
class _InSlices:
    """The rows of some slices and their approximate bytes. Invariant: one entry for each group of a site, then one for
    each of its cells."""

    rows: IntArray
    size: IntArray


class SiteStatisticsCollector:
    """Collects the statistics of a site whose step is done, from its `parts` and its `output`. Rows of cells are
    counted apart from those of groups.

    Invariant: arrays for groups and cells have one entry for each of the site's groups, then one for each of its cells.
    """

    def __init__(
        self,
        job: EpochJob,
        subquery: Subquery,
        site: int,
        storage: Storage,
        parts: SiteParts,
        output: OutputByGroup,
    ) -> None:
        self._directory, self._operator, self._site = job.directories[subquery.number], subquery.operator, site
        self._storage, self._parts, self._output = storage, parts, output
        self._borders, self._cells = output.borders, self._directory.cells_of(site)
        self._known, self._epoch = counted_at(job.runs, subquery.number, site), job.epoch

    def collect(self, state: SiteState) -> SiteStatistics:
        """Return the statistics. `state` is the state after the step."""
        views = [part.view for part in self._parts.all]
        fresh = [
            [hashes_of(table) for view in views for table in view.fresh[port]] for port in range(self._operator.ports)
        ]
        in_groups = [[without(hashes, self._cells) for hashes in port] for port in fresh]
        rows, heaviest, keys = self._rows_and_keys(in_groups)
        counts = self._known.of(self._borders, state.all_slices(), self._storage.hashes_here)
        stored, waiting, held, parked = (
            self._summed(slices, counts)
            for slices in ((*state.slices, *state.active), state.pending, state.held, state.parked_slices())
        )
        groups, probing = slice(len(self._borders.groups)), isinstance(self._operator, ProbingOperator)
        pending = waiting.rows[groups]
        if not probing:  # stored rows are pending in ranges where due work was not done
            for left in remaining(self._parts.usual.left, state.parked_ranges()):
                pending = np.where(self._borders.groups.overlap(left), stored.rows[groups], pending)
        seconds, of_cells = self._seconds(fresh, rows if probing else rows + stored.rows[groups])
        load = Loads(
            rows=rows,
            heaviest=heaviest,
            seconds=seconds,
            state_rows=stored.rows[groups],
            state_bytes=stored.size[groups],
            pending=pending,
            last_used=np.where(rows > 0, self._epoch, 0),
            done=self._done() if probing else rows,
            output=self._output.total[groups],
            pending_bytes=waiting.size[groups],
            held_bytes=held.size[groups],
            parked_bytes=parked.size[groups],
        )
        output_of_cells = self._output.total[len(rows) :]
        cells = cell_loads(self._directory, self._site, fresh, self._done_in_cells(), of_cells, output_of_cells)
        used = sum(int(part.size.sum()) for part in (stored, waiting, held))
        return SiteStatistics(load, keys, cells, MemoryUse(used, resident_bytes(), memory_limit()))

    def _rows_and_keys(self, columns: HashColumns) -> tuple[IntArray, IntArray, tuple[KeyLoad, ...]]:
        """Return the rows of each group, the most rows of one key in each group, and the heaviest keys."""
        if isinstance(self._operator, KeepsTimesApart):  # then there is one column per split, and they are alike
            return *self._borders.groups.estimated(columns[0]), ()
        ports = [[KeyCounts.of(hashes) for hashes in port] for port in columns]
        rows, heaviest = self._borders.groups.tallied(counts for port in ports for counts in port)
        return rows, heaviest, heavy_keys(ports) if may_cut(self._operator) else ()

    def _seconds(self, fresh: HashColumns, weights: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the seconds of the groups, and those of the cells."""
        rows = [sum(rows_of(port, cell) for port in fresh) for cell in self._cells]
        both = np.concatenate((weights, np.asarray(rows, np.int64)))
        seconds = shared_out(self._borders, [item for part in self._parts.all for item in part.work.worked], both)
        return seconds[: len(weights)], seconds[len(weights) :]

    def _done(self) -> IntArray:
        """Return the pending rows of each group that were worked on."""
        return self._borders.groups.counted(
            hashes
            for part in self._parts.all
            for hashes in part.view.hashes_inside(remaining(part.work.done, self._cells))
        )

    def _done_in_cells(self) -> list[int]:
        """Return the pending rows of each cell that were worked on."""
        columns = [
            hashes
            for part in self._parts.all
            for hashes in part.view.hashes_inside(common(sorted(part.work.done), self._cells))
        ]
        return [rows_of(columns, cell) for cell in self._cells]

    def _summed(self, slices: Iterable[Slice], counts: Mapping[Slice, IntArray]) -> _InSlices:
        """Add up the rows and bytes of some slices."""
        rows, size = np.zeros((2, len(self._borders)), np.int64)
        for piece in slices:
            counted = counts[piece] if piece in counts else self._spread_evenly(piece)
            rows += counted
            size += counted * (piece.run.size // piece.run.rows)
        return _InSlices(rows, size)

    def _spread_evenly(self, piece: Slice) -> IntArray:
        """Estimate the rows of each group in a slice that has not been fetched yet. Cells are left out: their rows are
        counted once the slice is here."""
        mine = self._borders.overlap(piece.range)
        mine[len(self._borders.groups) :] = False
        return np.where(mine, about(piece, self._directory.sites) // max(1, int(mine.sum())), 0)


def round_of(
    job: EpochJob,
    subquery: int,
    reports: Sequence[RouteReport | SiteReport],
    seconds: float,
    capacity: int,
    memory: int = 0,
    rest: float = 0.0,
    may_park: bool = False,
) -> RoundStats:
    """Return the statistics of a subquery for one epoch of `seconds`, of which `rest` seconds were idle. All its site
    reports must have statistics. A site may hold `memory` bytes of active state; `may_park` says whether more than that
    may be parked."""
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
        may_park=may_park,
        may_cut=may_cut(job.program.subqueries[subquery].operator),
        keys=heaviest(key for site in known for key in site.keys),
        cells=CellLoads.of_sites([site.cells for site in known]),
        site_memory=tuple(site.memory for site in known),
    )


def _gathered(by_site: Sequence[npt.NDArray[Number]], directory: Directory) -> npt.NDArray[Number]:
    """Return the values of all sites in the order of the directory."""
    known = np.concatenate(by_site)
    gathered = np.empty_like(known)
    gathered[directory.places_by_home] = known
    return gathered


def shared_out(borders: SiteBorders, worked: Sequence[Worked], weights: IntArray) -> FloatArray:
    """Estimate the seconds of work items by group and cell: those of each item are divided among the groups in its
    range, by weight."""
    seconds = np.zeros(len(borders))
    for item in worked:
        mine = np.where(borders.overlap(item.range), weights + 1.0, 0.0)
        if total := mine.sum():
            seconds += mine * (item.seconds / total)
    return seconds


def without(hashes: Hashes, ranges: Sequence[HashRange]) -> Hashes:
    """Return a sorted column without the hashes of some ranges."""
    gone = [np.arange(len(hashes))[part.rows(hashes)] for part in ranges]
    return np.delete(hashes, np.concatenate(gone)) if gone else hashes


def heavy_keys(ports: Sequence[Sequence[KeyCounts]]) -> tuple[KeyLoad, ...]:
    """Return the heaviest keys of each column, with their rows by port over all columns."""
    heavy = [counts.heaviest(MOST_HEAVY_KEYS) for port in ports for counts in port]
    found = np.unique(np.concatenate(heavy)) if heavy else np.zeros(0, np.uint64)
    none = np.zeros(len(found), np.int64)
    rows = np.stack([sum((counts.rows_of(found) for counts in port), none) for port in ports], axis=1)
    return tuple(KeyLoad(hash_, tuple(by_port)) for hash_, by_port in zip(found.tolist(), rows.tolist(), strict=True))


def rows_of(columns: Sequence[Hashes], part: HashRange) -> int:
    """Return the number of rows of some sorted columns in a range."""
    found = (part.rows(hashes) for hashes in columns)
    return sum(rows.stop - rows.start for rows in found)


def cell_loads(
    directory: Directory, site: int, columns: HashColumns, done: Sequence[int], seconds: FloatArray, output: IntArray
) -> CellLoads:
    """Return the statistics of the cells of a site. `done`, `seconds` and `output` have one entry for each cell of the
    site."""
    cut, copied, worked_on, put_out = np.zeros((4, len(directory.spread)), np.int64)
    took = np.zeros(len(directory.spread))
    own = [n for n, cells in enumerate(directory.spread) if site in cells.sites]
    for n in own:
        cut[n], copied[n] = _parted(directory.spread[n], columns)
    worked_on[own], took[own], put_out[own] = done, seconds, output
    return CellLoads(cut, copied, worked_on, took, put_out)


def _parted(cells: Cells, columns: HashColumns) -> tuple[int, int]:
    """Return the rows of a spread hash: on the port that is cut, and on the others, which are copied to every cell."""
    counts = [rows_of(port, point(cells.hash)) for port in columns]
    return counts[cells.cut], sum(counts) - counts[cells.cut]
