"""The two parts of a site whose rows never meet during work: ranges with parked state, and all others.

In ranges with parked state, only the active generation is worked on, with all marks at BEGIN (`operators.generations`):
so it is like the state of a site of its own that makes no progress. Runs of one part have no rows in the ranges of the
other, so the work of a part need not be cut at their borders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.engine.task.site.storing import Storage
from penstock.engine.task.site.view import StateView, TableRows, state_view
from penstock.engine.task.site.working import Work
from penstock.operators.generations import Generational, beginning
from penstock.operators.protocol import Operator
from penstock.progress.mark import Marks
from penstock.state.hash_ranges import EVERYTHING, HashRange, hull, remaining
from penstock.state.model import RangeMark, SiteState, normal, restricted
from penstock.state.runs import outside, restrict

Tables = Sequence[Sequence[pa.Table]]  # by port


@dataclass(frozen=True)
class SitePart:
    """A part of a site: its state, with `slices` that work uses, what is seen of it, and the work on it up to `upto`.
    `is_active`: it is the active generation of parked ranges."""

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
