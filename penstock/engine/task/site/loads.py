"""What a site tells of its groups after its step, and what the sites of a subquery tell together.

Every count is a search for the borders of all groups in a sorted column of hashes, so it costs next to nothing per row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from penstock.balance.keys import CellLoads, heaviest
from penstock.balance.stats import Counts, Figures, Loads, Round
from penstock.engine.task.site.key_loads import KeyCounts
from penstock.engine.task.site.working import Worked
from penstock.engine.wire.job import EpochJob, RouteReport, SiteReport
from penstock.operators.protocol import may_cut
from penstock.state.directory import Directory
from penstock.state.hash_ranges import Hashes, HashRange
from penstock.state.runs import Slice

Kind = TypeVar("Kind", np.int64, np.float64)
MOST_COUNTED = 256  # sites whose counts a process remembers
_COUNTED: dict[tuple[Path, int, int], Counted] = {}


@dataclass(frozen=True, eq=False)
class Borders:
    """The first and the last hash of each group of a site, in the order of the directory."""

    first: Hashes
    last: Hashes

    def __len__(self) -> int:
        return len(self.first)

    def same(self, other: Borders) -> bool:
        return np.array_equal(self.first, other.first) and np.array_equal(self.last, other.last)

    def counted(self, columns: Iterable[Hashes]) -> Counts:
        """How many rows of some sorted columns each group has."""
        total = np.zeros(len(self), np.int64)
        for hashes in columns:
            total += np.searchsorted(hashes, self.last, side="right") - np.searchsorted(hashes, self.first)
        return total

    def tallied(self, columns: Iterable[KeyCounts]) -> tuple[Counts, Counts]:
        """The same of columns that have no rows but those of these groups; and for each group the most rows that one
        hash has in a column."""
        total, most = np.zeros((2, len(self)), np.int64)
        for counts in columns:
            begin = np.searchsorted(counts.hashes, self.first)
            filled = np.diff(begin, append=len(counts.hashes)) > 0
            total += np.diff(counts.starts[begin], append=counts.starts[-1])
            if filled.any():
                most[filled] = np.maximum(most[filled], np.maximum.reduceat(counts.rows, begin[filled]))
        return total, most

    def estimated(self, columns: Sequence[Hashes]) -> tuple[Counts, Counts]:
        """The same as `tallied`, but only the longest column is searched for what one hash has."""
        total = np.zeros(len(self), np.int64)
        for hashes in columns:
            total += np.diff(np.searchsorted(hashes, self.first), append=len(hashes))
        _, most = self.tallied([KeyCounts.of(max(columns, key=len))] if columns else [])
        return total, np.maximum(most, np.minimum(total, 1))

    def and_also(self, ranges: Sequence[HashRange]) -> Borders:
        """These, and those of other ranges behind them."""
        first = np.asarray([r.low for r in ranges], np.uint64)
        last = np.asarray([r.high - 1 for r in ranges], np.uint64)
        return Borders(np.concatenate((self.first, first)), np.concatenate((self.last, last)))

    def overlap(self, part: HashRange) -> npt.NDArray[np.bool_]:
        """Which groups have hashes of a range."""
        return (self.first <= np.uint64(part.high - 1)) & (self.last >= np.uint64(part.low))


class Counted:
    """How many rows of each slice each group has. Slices do not change, so what was counted in an epoch is known in the
    next, as long as the borders are the same. Invariant: `_counts` are those of the slices of the last time."""

    def __init__(self) -> None:
        self._borders = Borders(np.zeros(0, np.uint64), np.zeros(0, np.uint64))
        self._counts: dict[Slice, Counts] = {}

    def of(
        self, borders: Borders, slices: Iterable[Slice], read: Callable[[Slice], Hashes | None]
    ) -> dict[Slice, Counts]:
        """Of those slices that can be read now."""
        known = self._counts if self._borders.same(borders) else {}
        self._borders, self._counts = borders, {}
        for piece in slices:
            if piece in known:
                self._counts[piece] = known[piece]
            elif (hashes := read(piece)) is not None:
                self._counts[piece] = borders.counted([hashes])
        return self._counts


def counted_at(runs: Path, subquery: int, site: int) -> Counted:
    """What this process has counted for a site. Those that were asked for longest ago are forgotten."""
    place = (runs, subquery, site)
    _COUNTED[place] = found = _COUNTED.pop(place, None) or Counted()
    if len(_COUNTED) > MOST_COUNTED:
        _COUNTED.pop(next(iter(_COUNTED)))
    return found


def borders_of(directory: Directory, site: int) -> Borders:
    own = directory.places_of(site)
    return Borders(directory.lows[own], directory.lasts[own])


def shared_out(borders: Borders, worked: Sequence[Worked], weights: Counts) -> tuple[Figures, Figures]:
    """The seconds of work items and the rows that they put out, each shared out among the groups that it was about, by
    their weights."""
    seconds, output = np.zeros((2, len(borders)))
    for item in worked:
        mine = np.where(borders.overlap(item.range), weights + 1.0, 0.0)
        if total := mine.sum():
            seconds += mine * (item.seconds / total)
            output += mine * (item.output / total)
    return seconds, output


def round_of(
    job: EpochJob,
    subquery: int,
    reports: Sequence[RouteReport | SiteReport],
    seconds: float,
    capacity: int,
    memory: int = 0,
    rest: float = 0.0,
) -> Round:
    """One epoch of a subquery, as a round of its own; `rest` of its seconds nobody worked."""
    directory = job.directories[subquery]
    sites = [report for report in reports if isinstance(report, SiteReport) and report.subquery == subquery]
    own = sorted(sites, key=lambda report: report.site)
    told = [report.told for report in own if report.told is not None]
    loads = [site.load for site in told]
    busy = np.asarray([report.time.seconds for report in own])
    return Round(
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
        keys=heaviest(key for site in told for key in site.keys),
        cells=CellLoads.of_sites([site.cells for site in told]),
    )


def _gathered(by_site: Sequence[npt.NDArray[Kind]], directory: Directory) -> npt.NDArray[Kind]:
    """The figures of all sites in the order of the directory."""
    told = np.concatenate(by_site)
    gathered = np.empty_like(told)
    gathered[directory.places_by_home] = told
    return gathered
