"""Clean-up at a site: produce the results that the generations of parked ranges owe together, then use them as state.

A range is cut into parts of bounded size. In each part, the oldest generation is merged with the next one, the result
with the one after that, and finally with the active generation; then the part is not parked any more, and its marks go
on with those of all other ranges.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from penstock.clock import Clock
from penstock.engine.task.site.cutting import EstimatedRows, PartLimits, SliceRows, cut
from penstock.engine.task.site.storing import Storage, of_port
from penstock.engine.task.site.view import as_stored
from penstock.engine.task.site.working import Deadline, Work
from penstock.engine.wire.job import WorkLimits
from penstock.operators.generations import Generational
from penstock.operators.protocol import Operator, Portion
from penstock.state.hash_ranges import HashRange
from penstock.state.model import ParkedRange, RangeMark, SiteState, restricted
from penstock.state.overflow import inside, unpark
from penstock.state.runs import Slice, restrict

PART_ROWS = 65_536  # of the younger generations: each row may owe many results, and the clock is read between parts


class SiteCleanUp:
    """The clean-up of a site in one epoch: parts begin until its share of the time is over, but at least one does."""

    def __init__(self, operator: Operator, limits: WorkLimits, storage: Storage, work: Work, clock: Clock) -> None:
        self._operator, self._storage, self._work = operator, storage, work
        self._limits = PartLimits(min(limits.item_rows, PART_ROWS), storage.budget.item)
        self._deadline = Deadline(replace(limits, seconds=limits.clean_up_seconds), clock)

    def run(self, state: SiteState, wanted: Sequence[HashRange]) -> SiteState:
        """Return the state after the clean-up of what is parked in some sorted ranges, or of a part of that."""
        for parked in list(inside(state.parked, wanted)):
            if not isinstance(self._operator, Generational):  # then its generations owe no results
                state = unpark(state, parked.range)
                continue
            with_active = _with_active(state, parked)
            if not self._is_here(with_active):
                continue
            for part in self._parts(state.marks, with_active):
                if not self._deadline.allows():
                    return state
                self._merge(part, *inside([with_active], [part.range]))
                self._deadline.done += 1
                state = unpark(state, part.range)
        return state

    def _is_here(self, parked: ParkedRange) -> bool:
        """Return whether all rows of a range can be read; wait for them if there is nothing else to do."""
        away = [piece for piece in parked.slices() if not self._storage.is_here(piece)]
        if away:
            self._storage.wait_for(away, self._deadline.patience(nothing_else=not self._deadline.done))
        return all(map(self._storage.is_here, away))

    def _parts(self, marks: Sequence[RangeMark], parked: ParkedRange) -> Iterator[RangeMark]:
        """Yield the range in parts with equal marks, whose rows fit into memory: those of the younger generations, and
        those of the oldest."""
        oldest, *younger = parked.generations
        rows = [SliceRows(self._storage, piece) for generation in younger for piece in generation]
        stored = [EstimatedRows(self._storage, piece) for piece in oldest]
        for mark in restricted(marks, [parked.range]):
            for part in cut(mark.range, rows, self._limits):
                for within in cut(part, stored, PartLimits(bytes=self._storage.budget.item)):
                    yield RangeMark(within, mark.marks)

    def _merge(self, part: RangeMark, parked: ParkedRange) -> None:
        """Produce the results that the generations of a part owe together."""
        ports = range(self._operator.ports)
        oldest, *younger = parked.generations
        merged = [self._together(port, self._tables(oldest, port)) for port in ports]
        for generation in younger:
            fresh = tuple(self._operator.combine(port, self._tables(generation, port)) for port in ports)
            stored = tuple([as_stored(rows) for rows in tables if rows.num_rows] for tables in merged)
            portion = Portion(stored, fresh, part.marks, part.marks, clean_up=True)
            if portion.fresh_rows:  # also without stored rows: those of younger generations are still to be decided
                self._work.produce(part.range, portion)
            merged = [self._together(port, [*merged[port], fresh[port]]) for port in ports]

    def _tables(self, generation: Sequence[Slice], port: int) -> list[pa.Table]:
        """Return the rows of a generation, in a table for each of its slices."""
        return [self._storage.read(piece) for piece in of_port(generation, port)]

    def _together(self, port: int, tables: list[pa.Table]) -> list[pa.Table]:
        """Return tables of a port as one, because rows are looked up in every table of every other port; as they are if
        they take too much memory: rows of one hash are never cut."""
        if sum(rows.nbytes for rows in tables) > self._storage.budget.item:
            return tables
        return [self._operator.combine(port, tables)]


def _with_active(state: SiteState, parked: ParkedRange) -> ParkedRange:
    """Return a range with the active generation as its last one."""
    active = tuple(restrict(state.active, [parked.range]))
    return replace(parked, generations=(*parked.generations, active))
