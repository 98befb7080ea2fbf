"""The state of a query as the driver keeps it in memory: what an epoch commits, and what the next one begins from.

How it is written is no concern of these classes: `checkpoint.format` translates them, so a field here may get another
name and no file changes.

Marks over hash ranges: the progress of each part of a site's hashes. Pure functions over sorted ranges.

A work item covers any range of hashes; when it is done, only the marks of that range advance. Neighbouring ranges with
equal marks are joined even if there is a gap between them: the hashes in the gap belong to other sites, so the marks
there have no effect. A site without pending work therefore has one range of marks, however scattered its groups are.

Parked state: parking a range makes its slices, of all ports, a generation: a list of slices changes hands, and no row
is touched. So parked ranges are cut, moved and joined like all other state.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.progress.mark import BEGIN, Mark, Marks, low_water_mark
from penstock.state.directory import Directory
from penstock.state.hash_ranges import HashRange, coalesced, remaining
from penstock.state.runs import Slice, join_neighbours, outside, restrict


@dataclass(frozen=True)
class RangeMark:
    """The marks of a range of hashes, one per track: up to them all rows are processed, windows closed and state
    cleaned up."""

    range: HashRange
    marks: tuple[Mark, ...]


@dataclass(frozen=True)
class ParkedRange:
    """A range of hashes with state that is parked: not opened, not probed, not fetched. `generations` are sets of
    slices of all ports, the oldest first; what came since the last of them was parked is the active generation, in
    `SiteState.active`.

    Invariant: there is at least one generation, and the marks of the range have not moved since the first was parked. A
    generation without slices counts, too: the rows of younger ones have not been decided at these marks.
    """

    range: HashRange
    generations: tuple[tuple[Slice, ...], ...]

    def slices(self) -> tuple[Slice, ...]:
        """Return the slices of all generations."""
        return tuple(piece for generation in self.generations for piece in generation)


@dataclass(frozen=True)
class SiteState:
    """The state of a site: `slices` of state, `pending` state rows that wait to be processed, and rows that an ordered
    merger holds back, which are those of `held` with a time at or above `released`. Work that has progressed equally
    far starts at the hash `turn`, and wraps around; results do not depend on it. `parked` is state that is not used,
    `active` what came since in the same ranges.

    Invariant: the ranges of `marks` are sorted, do not overlap, and cover the site's groups. Neighbours with equal
    marks are one range, also if hashes of other sites lie between them. The ranges of `parked` are sorted and do not
    overlap either. `slices` have no rows in these ranges, and `active` has no rows outside of them.
    """

    slices: tuple[Slice, ...]
    marks: tuple[RangeMark, ...]
    pending: tuple[Slice, ...] = ()
    held: tuple[Slice, ...] = ()
    released: Mark = BEGIN
    turn: int = 0
    parked: tuple[ParkedRange, ...] = ()
    active: tuple[Slice, ...] = ()

    def all_slices(self) -> tuple[Slice, ...]:
        """Return the slices of all rows of the site, also those that are parked."""
        return (*self.needed_slices(), *self.parked_slices())

    def parked_slices(self) -> tuple[Slice, ...]:
        """Return the slices that are parked."""
        return tuple(piece for parked in self.parked for piece in parked.slices())

    def needed_slices(self) -> tuple[Slice, ...]:
        """Return all slices that are not parked, in the order in which a site needs them: first the held rows, without
        which nothing passes an ordered merger, then the pending rows, then state."""
        return (*self.held, *self.pending, *self.slices, *self.active)

    def parked_ranges(self) -> list[HashRange]:
        """Return the ranges that have parked state, sorted."""
        return [parked.range for parked in self.parked]


@dataclass(frozen=True)
class SubqueryState:
    """The directory of a subquery and the state of its sites. Invariant: `sites` has one entry per site of the
    directory."""

    directory: Directory
    sites: tuple[SiteState, ...]


@dataclass(frozen=True)
class SourceState:
    """How far a source is read, and the punctuation of its substreams. `progress` is the source's own plain JSON,
    `floor` the punctuation that the stream already had, `rows` the number of its rows that were numbered."""

    progress: dict[str, Any] | None
    marks: dict[str, Mark]
    ended: bool
    floor: Mark = BEGIN
    rows: int = 0


@dataclass(frozen=True)
class Staged:
    """A file of rows that is or was to be published. `output` is "results", "late" or "bad". `size` and `checksum` are
    those of the bytes that were written."""

    output: str
    name: str
    rows: int
    size: int
    checksum: str


@dataclass(frozen=True)
class Totals:
    """Row counts since the start of the query."""

    rows_in: int = 0
    rows_out: int = 0
    late_rows: int = 0
    bad_rows: int = 0

    def plus(self, other: Totals) -> Totals:
        """Return the sums of two totals."""
        return Totals(
            self.rows_in + other.rows_in,
            self.rows_out + other.rows_out,
            self.late_rows + other.late_rows,
            self.bad_rows + other.bad_rows,
        )


@dataclass(frozen=True)
class Manifest:
    """The committed state of a query after one epoch."""

    query_id: str
    fingerprint: str
    epoch: int
    sources: tuple[SourceState, ...]
    subqueries: tuple[SubqueryState, ...]
    staged: tuple[Staged, ...]
    folders: dict[str, str]  # where each output is staged, on this machine
    totals: Totals
    finished: bool
    published: dict[str, int] = field(default_factory=dict)  # of each output the newest epoch with rows before this one
    asked_sites: int = 0  # the setting `sites` that the directories were made for; they are kept until it changes

    def run_names(self) -> set[str]:
        """Return the names of all runs that the state refers to."""
        return {piece.run.name for sub in self.subqueries for site in sub.sites for piece in site.all_slices()}

    def last_with_rows(self, output: str) -> int:
        """Return the newest epoch with rows for an output; 0 if there is none."""
        return self.epoch if any(file.output == output for file in self.staged) else self.published.get(output, 0)

    def next(self, **changes: Any) -> Manifest:
        """Return a manifest for the next epoch, in which all staged files of this one count as published. Requires that
        they are."""
        published = self.published | {file.output: self.epoch for file in self.staged}
        return replace(self, epoch=self.epoch + 1, published=published, **changes)


def starting_marks(ranges: Iterable[HashRange], tracks: int) -> tuple[RangeMark, ...]:
    """Return the marks of ranges in which nothing has been done yet: BEGIN on each of `tracks` tracks."""
    return normal(RangeMark(r, (BEGIN,) * tracks) for r in ranges)


def normal(marks: Iterable[RangeMark]) -> tuple[RangeMark, ...]:
    """Return the marks of a site sorted by range, with neighbours of equal marks joined."""
    joined: list[RangeMark] = []
    for m in sorted(marks, key=lambda m: m.range.low):
        if joined and joined[-1].marks == m.marks:
            joined[-1] = RangeMark(HashRange(joined[-1].range.low, m.range.high), m.marks)
        else:
            joined.append(m)
    return tuple(joined)


def moved_to(marks: Iterable[RangeMark], parts: Iterable[HashRange], reached: Marks) -> tuple[RangeMark, ...]:
    """Return the marks after the work on `parts`, which must not overlap, is done up to `reached`."""
    done = sorted(parts)
    if not done:
        return tuple(marks)
    lows = [part.low for part in done]
    others = []
    for m in marks:
        near = done[max(0, bisect_right(lows, m.range.low) - 1) : bisect_left(lows, m.range.high)]
        others += [RangeMark(left, m.marks) for left in remaining([m.range], near)]
    return normal([*(RangeMark(part, reached) for part in done), *others])


def restricted(marks: Iterable[RangeMark], ranges: Sequence[HashRange]) -> list[RangeMark]:
    """Return the marks of the given ranges only. They are not joined: at a new site, other ranges may lie between
    them."""
    return [RangeMark(both, m.marks) for m in marks for part in ranges if (both := m.range.intersect(part)) is not None]


def least(marks: Sequence[RangeMark], tracks: int) -> Marks:
    """Return the low-water mark of each track; END on all tracks if `marks` is empty."""
    return tuple(low_water_mark(m.marks[track] for m in marks) for track in range(tracks))


def behind(marks: Marks, upto: Marks) -> bool:
    """Return whether `marks` is below `upto` on some track."""
    return any(mark < bound for mark, bound in zip(marks, upto, strict=True))


def park(site: SiteState, part: HashRange) -> SiteState:
    """Park a range. Its state becomes its first generation or, where the range is parked already, its active state
    becomes the youngest generation. Pending rows of the range become active when they are worked on. A part of the
    range without slices stays as it is."""
    known, others = list(parked_inside(site.parked, [part])), list(_others(site.parked, part))
    new = [ParkedRange(one, ()) for one in remaining([part], [parked.range for parked in known])]
    grown = [
        *(_with_generation(parked, site.active) for parked in known),
        *(_with_generation(parked, site.slices) for parked in new),
    ]
    return replace(
        site,
        slices=outside(site.slices, [part]),
        active=_active_in(site, others),
        parked=parked_in_order([*others, *(parked for parked in grown if parked.generations)]),
    )


def unpark(site: SiteState, part: HashRange) -> SiteState:
    """Return the state with all generations of a range as state again, after the results that they owe together were
    produced."""
    freed = [piece for parked in parked_inside(site.parked, [part]) for piece in parked.slices()]
    others = list(_others(site.parked, part))
    return replace(
        site,
        slices=join_neighbours([*site.slices, *freed, *restrict(site.active, [part])]),
        active=_active_in(site, others),
        parked=parked_in_order(others),
    )


def parked_inside(parked: Iterable[ParkedRange], ranges: Sequence[HashRange]) -> Iterator[ParkedRange]:
    """Yield the parts of parked ranges inside `ranges`, which must not overlap."""
    for one in parked:
        for part in ranges:
            if (both := one.range.intersect(part)) is not None:
                yield ParkedRange(both, tuple(tuple(restrict(slices, [both])) for slices in one.generations))


def parked_in_order(parked: Iterable[ParkedRange]) -> tuple[ParkedRange, ...]:
    """Return parked ranges in order of hash."""
    return tuple(sorted(parked, key=lambda one: one.range))


def _others(known: Sequence[ParkedRange], part: HashRange) -> Iterator[ParkedRange]:
    """Yield what is parked outside of a range."""
    for parked in known:
        yield from parked_inside([parked], remaining([parked.range], [part]))


def _active_in(site: SiteState, parked: Iterable[ParkedRange]) -> tuple[Slice, ...]:
    """Return the active slices of some parked ranges, cut only where something is not parked."""
    return tuple(restrict(site.active, coalesced(one.range for one in parked)))


def _with_generation(parked: ParkedRange, slices: Sequence[Slice]) -> ParkedRange:
    """Return the range with its part of some slices as the youngest generation, if there are any."""
    youngest = tuple(restrict(slices, [parked.range]))
    return replace(parked, generations=(*parked.generations, youngest)) if youngest else parked
