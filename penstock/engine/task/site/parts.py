"""The two parts of a site whose rows never meet during work: ranges with parked state, and all others.

In ranges with parked state, only the active generation is worked on, with all marks at BEGIN (`operators.generations`):
so it is like the state of a site of its own that makes no progress. Runs of one part have no rows in the ranges of the
other, so the work of a part need not be cut at their borders.

Clean-up: produce the results that the generations of parked ranges owe together, then use them as state. A range is cut
into parts of bounded size. In each part, the oldest generation is merged with the next one, the result with the one
after that, and finally with the active generation; then the part is not parked any more, and its marks go on with those
of all other ranges.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.clock import Clock
from penstock.engine.task.site.storing import Storage, of_port
from penstock.engine.task.site.view import (
    EstimatedRows,
    PartLimits,
    SliceRows,
    StateView,
    TableRows,
    as_stored,
    cut,
    state_view,
)
from penstock.engine.task.site.working import Deadline, Work
from penstock.engine.wire.job import WorkLimits
from penstock.operators.generations import Generational, beginning
from penstock.operators.protocol import Operator, Portion
from penstock.progress.mark import Marks
from penstock.state.hash_ranges import EVERYTHING, HashRange, hull, remaining
from penstock.state.model import ParkedRange, RangeMark, SiteState, normal, parked_inside, restricted, unpark
from penstock.state.runs import Slice, outside, restrict

PART_ROWS = 65_536  # of the younger generations: each row may owe many results, and the clock is read between parts
Tables = Sequence[Sequence[pa.Table]]  # by port


@dataclass(frozen=True)
class SitePart:
    """A part of a site: its state, the view of its rows, and its work up to `upto`. `is_active`: it is the active
    generation of parked ranges."""

    state: SiteState
    view: StateView
    work: Work
    upto: Marks
    is_active: bool = False

    @property
    def left(self) -> list[HashRange]:
        """Return the ranges in which work is left that was not deferred on purpose."""
        return self.work.left(self.state.marks, self.upto)

    def run(self, elsewhere: int) -> SitePart:
        """Do the work that is due; return the part with the marks afterwards."""
        marks = self.work.run(self.view, self.state.marks, self.upto, elsewhere)
        return replace(self, state=replace(self.state, marks=marks))


@dataclass(frozen=True)
class SiteParts:
    """The parts of a site in a step. `active` is None if nothing is parked."""

    usual: SitePart
    active: SitePart | None = None

    @property
    def all(self) -> tuple[SitePart, ...]:
        """Return the parts that there are."""
        return (self.usual,) if self.active is None else (self.usual, self.active)

    def run(self, operator: Operator, active_first: bool) -> SiteParts:
        """Do the work of both parts. Which of them comes first matters if there is a deadline. Rows of parked ranges
        stay pending if the operator cannot work on them without the rest of their state."""
        usual, active = self.usual, self.active
        if active is None or not isinstance(operator, Generational):
            return replace(self, usual=usual.run(0))
        first, second = (active, usual) if active_first else (usual, active)
        second_rows = second.view.unworked_rows()
        first = first.run(second_rows)
        second = second.run(first.work.unworked - second_rows)
        return SiteParts(second, first) if active_first else SiteParts(first, second)

    def marks(self, before: SiteState) -> tuple[RangeMark, ...]:
        """Return the marks of the site after the work: those of parked ranges are as before."""
        if self.active is None:
            return self.usual.state.marks
        parked = before.parked_ranges()
        free = restricted(self.usual.state.marks, remaining([EVERYTHING], parked))
        return normal([*free, *restricted(before.marks, parked)])


def site_parts(
    storage: Storage, operator: Operator, state: SiteState, fresh: Tables, works: tuple[Work, Work], upto: Marks
) -> SiteParts:
    """Divide a site into its parts. `fresh[port]` are the rows that have arrived, `works` are for the two parts."""
    parked = state.parked_ranges()
    if not parked:
        return SiteParts(SitePart(state, state_view(storage, operator, state, fresh), works[0], upto))
    free = remaining([EVERYTHING], parked)
    usual = replace(
        state, pending=outside(state.pending, parked), marks=normal(restricted(state.marks, free)), active=()
    )
    start = beginning(upto)
    active = replace(
        state,
        slices=state.active,
        pending=tuple(restrict(state.pending, parked)),
        marks=(RangeMark(hull(parked), start),),
    )
    return SiteParts(
        SitePart(usual, state_view(storage, operator, usual, _inside(fresh, free)), works[0], upto),
        SitePart(active, state_view(storage, operator, active, _inside(fresh, parked)), works[1], start, True),
    )


def _inside(fresh: Tables, ranges: Sequence[HashRange]) -> Tables:
    """Return the rows of sorted tables in some sorted ranges, as many tables as there were, without empty ones."""
    return [[rows for table in tables if (rows := _rows(TableRows(table), ranges)).num_rows] for tables in fresh]


def _rows(table: TableRows, ranges: Sequence[HashRange]) -> pa.Table:
    return pa.concat_tables([table.table.slice(0, 0), *(table.inside(part) for part in ranges)])


class SiteCleanUp:
    """The clean-up of a site in one epoch: parts begin until its share of the time is over, but at least one does."""

    def __init__(self, operator: Operator, limits: WorkLimits, storage: Storage, work: Work, clock: Clock) -> None:
        self._operator, self._storage, self._work = operator, storage, work
        self._limits = PartLimits(min(limits.item_rows, PART_ROWS), storage.budget.item)
        self._deadline = Deadline(replace(limits, seconds=limits.clean_up_seconds), clock)

    def run(self, state: SiteState, wanted: Sequence[HashRange]) -> SiteState:
        """Return the state after the clean-up of what is parked in some sorted ranges, or of a part of that."""
        for parked in list(parked_inside(state.parked, wanted)):
            if not isinstance(self._operator, Generational):  # then its generations owe no results
                state = unpark(state, parked.range)
                continue
            with_active = _with_active(state, parked)
            if not self._is_here(with_active):
                continue
            for part in self._parts(state.marks, with_active):
                if not self._deadline.allows():
                    return state
                self._merge(part, *parked_inside([with_active], [part.range]))
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
