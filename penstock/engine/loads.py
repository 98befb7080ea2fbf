"""What a site tells of its groups after its step, and what the sites of a subquery tell together.

Every count is a search for the borders of all groups in a sorted column of hashes, so it costs next to nothing per row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from penstock.balance.round import Counts, Figures, Loads, Round
from penstock.engine.job import EpochJob, RouteReport, SiteReport
from penstock.state.directory import Directory, Hashes, HashRange

Kind = TypeVar("Kind", np.int64, np.float64)


@dataclass(frozen=True, eq=False)
class Borders:
    """The first and the last hash of each group of a site, in the order of the directory."""

    first: Hashes
    last: Hashes

    def __len__(self) -> int:
        return len(self.first)

    def spans(self, hashes: Hashes) -> tuple[Counts, Counts]:
        """For each group where its rows begin and end in a sorted column."""
        return np.searchsorted(hashes, self.first), np.searchsorted(hashes, self.last, side="right")

    def counted(self, columns: Iterable[Hashes]) -> Counts:
        """How many rows of some sorted columns each group has."""
        total = np.zeros(len(self), np.int64)
        for hashes in columns:
            begin, end = self.spans(hashes)
            total += end - begin
        return total

    def heaviest(self, columns: Iterable[Hashes]) -> Counts:
        """For each group the most rows that one hash has in a column."""
        most = np.zeros(len(self), np.int64)
        for hashes in columns:
            if len(hashes):
                most = np.maximum(most, self._heaviest(hashes))
        return most

    def _heaviest(self, hashes: Hashes) -> Counts:
        starts = np.flatnonzero(np.concatenate(([True], hashes[1:] != hashes[:-1])))
        lengths = np.diff(starts, append=len(hashes))
        begin, end = self.spans(hashes[starts])
        most = np.zeros(len(self), np.int64)
        filled = end > begin
        # Groups may have neighbours that are not of this site, so each is bounded on both sides.
        edges = np.stack((begin[filled], end[filled]), axis=1).ravel()
        most[filled] = np.maximum.reduceat(np.append(lengths, 0), edges)[::2]
        return most

    def overlap(self, part: HashRange) -> npt.NDArray[np.bool_]:
        """Which groups have hashes of a range."""
        return (self.first <= np.uint64(part.high - 1)) & (self.last >= np.uint64(part.low))


def borders_of(directory: Directory, site: int) -> Borders:
    own = directory.home_of == site
    return Borders(directory.lows[own], directory.lasts[own])


def shared_out(borders: Borders, worked: Sequence[tuple[HashRange, float]], weights: Counts) -> Figures:
    """The seconds of work items, each shared out among the groups that it was about, by their weights."""
    seconds = np.zeros(len(borders))
    for part, took in worked:
        mine = np.where(borders.overlap(part), weights + 1.0, 0.0)
        if total := mine.sum():
            seconds += mine * (took / total)
    return seconds


def round_of(
    job: EpochJob, subquery: int, reports: Sequence[RouteReport | SiteReport], seconds: float, capacity: int
) -> Round:
    """One epoch of a subquery, as a round of its own."""
    directory = job.directories[subquery]
    sites = [report for report in reports if isinstance(report, SiteReport) and report.subquery == subquery]
    own = sorted(sites, key=lambda report: report.site)
    loads = [report.load for report in own if report.load is not None]
    order = np.argsort(np.argsort(directory.home_of, kind="stable"), kind="stable")
    busy = np.asarray([report.time.seconds for report in own])
    return Round(
        directory=directory,
        epochs=1,
        seconds=seconds,
        loads=Loads(**{f.name: _gathered([getattr(load, f.name) for load in loads], order) for f in fields(Loads)}),
        busy=busy,
        share=np.full(len(busy), busy.max(initial=0.0)),
        backlog=np.asarray([float(report.backlog) for report in own]),
        capacity=capacity,
    )


def _gathered(by_site: Sequence[npt.NDArray[Kind]], order: Counts) -> npt.NDArray[Kind]:
    """The figures of all sites in the order of the directory."""
    return np.asarray(np.concatenate(by_site)[order])
