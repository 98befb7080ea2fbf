"""Which state is parked and which is cleaned up in the next epoch. Pure.

To park a range is a change of the state that the next epoch begins from. A clean-up is work: the driver names ranges,
and sites clean up as much of them as their share of the time allows. What is parked is cleaned up at the latest when
all input has ended, or when it holds back results by more than they may be delayed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from penstock.engine.driver.commit import marks_into, source_marks
from penstock.engine.driver.grids import wants_grid
from penstock.operators.protocol import Operator
from penstock.plan.program import Program
from penstock.progress.mark import MAX_TIME, Marks
from penstock.settings import OverflowMode
from penstock.state.directory import Directory
from penstock.state.hash_ranges import HashRange, coalesced, common
from penstock.state.model import Manifest, SubqueryState, park, restricted

Ranges = tuple[HashRange, ...]
UNBOUNDED = 1 << 61  # a lifetime of rows as long as this has no end


def with_parked(state: SubqueryState, ranges: Iterable[HashRange]) -> SubqueryState:
    """Return the state of a subquery with some ranges parked, which may overlap. Hashes that are spread over cells stay
    as they are."""
    wanted = coalesced(ranges)
    homes = (state.directory.home_ranges_of(site) for site in range(len(state.sites)))
    sites = tuple(reduce(park, common(home, wanted), site) for site, home in zip(state.sites, homes, strict=True))
    return replace(state, sites=sites)


@dataclass(frozen=True)
class CleanUpRule:
    """When parked state is cleaned up: `overflow` says whether also in idle time, and in turns under load. Results may
    be held back by `max_delay` times the lifetime of rows."""

    overflow: OverflowMode
    max_delay: int

    def ranges(
        self,
        manifest: Manifest,
        program: Program,
        directories: Sequence[Directory],
        asked: Sequence[Sequence[HashRange]],
        idle: bool,
    ) -> tuple[Ranges, ...]:
        """Return, for each subquery, the sorted ranges to clean up in the next epoch. `asked` are those requested by
        decisions; `idle` says whether the epoch has no input."""
        ended = all(mark.ended for mark in source_marks(manifest.sources))
        found = []
        for subquery, state in zip(program.subqueries, manifest.subqueries, strict=True):
            number, operator = subquery.number, subquery.operator
            parked = list(_all_parked(state))
            if ended or (idle and self.overflow != "defer") or wants_grid(operator, directories[number]):
                due = [one.range for one in parked]
            elif parked:
                late = self._overdue(parked, operator, marks_into(manifest, program, subquery))
                due = [*late, *common(_ranges(parked), coalesced(asked[number]))]
                due += self._next_in_turn(parked)
            else:
                due = []
            found.append(tuple(coalesced(due)))
        return tuple(found)

    def _overdue(self, parked: Sequence[Parked], operator: Operator, upto: Marks) -> Iterator[HashRange]:
        """Yield the ranges that hold back results by more than these may be delayed."""
        span = max(map(operator.span, range(operator.ports)))
        if span < UNBOUNDED:
            yield from (one.range for one in parked if one.delay(upto) > self.max_delay * span)

    def _next_in_turn(self, parked: Sequence[Parked]) -> list[HashRange]:
        """Return the range that is furthest behind, if ranges are cleaned up in turns."""
        return [min(parked, key=lambda one: (one.marks, one.range)).range] if self.overflow == "rotate" else []


@dataclass(frozen=True)
class Parked:
    """A parked range, or a part of one, with its marks and the least time of its rows."""

    range: HashRange
    marks: Marks
    least: int

    def delay(self, upto: Marks) -> int:
        """Return the event time by which the range is behind `upto`."""
        return max(bound.at - max(mark.at, self.least) for mark, bound in zip(self.marks, upto, strict=True))


def _all_parked(state: SubqueryState) -> Iterator[Parked]:
    """Yield the parked ranges of all sites. Those of cells of one hash overlap."""
    for site in state.sites:
        for parked in site.parked:
            least = min((piece.run.min_time for piece in parked.slices()), default=MAX_TIME)
            yield from (Parked(part.range, part.marks, least) for part in restricted(site.marks, [parked.range]))


def _ranges(parked: Iterable[Parked]) -> list[HashRange]:
    return coalesced(one.range for one in parked)
