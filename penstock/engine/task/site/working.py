"""The work of a site in an epoch: which work is due, in which order, in items of bounded size; how much of it fits
before the deadline, and which closings are deferred."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from penstock.balance.batching import turns
from penstock.balance.flushing import EAGER, IDLE_SHARE, LAZY, LEAST_SHARE, Closing, at_least, pressing
from penstock.clock import Clock, Stopwatch
from penstock.engine.task.exchange.branches import Branches
from penstock.engine.task.site.storing import Storage
from penstock.engine.task.site.view import PartLimits, StateView
from penstock.engine.wire.job import WorkLimits
from penstock.operators.protocol import (
    UNCOUNTED,
    ClosesWindows,
    Exploding,
    Explosion,
    Operator,
    OutputCounts,
    Portion,
    ProbingOperator,
    WorkResult,
)
from penstock.progress.mark import Marks
from penstock.state.hash_ranges import (
    EVERYTHING,
    HASH_END,
    HashRange,
    apart,
    coalesced,
    common,
    first_hashes,
    remaining,
    width_of,
)
from penstock.state.model import RangeMark, behind, moved_to, restricted
from penstock.state.runs import Slice, restrict

AllMarks = tuple[RangeMark, ...]
_IDLE_ITEM_ROWS = 32_768  # items for idle time are small: the clock is checked after each


@dataclass(frozen=True)
class Worked:
    """The cost of a work item in seconds."""

    range: HashRange
    seconds: float


class Kept:
    """The state rows to keep from the items of a step.

    Invariant: those of a port are in the tables `rows[port]` and in the slices `written[port]`, each row in one of
    them. The tables of a port have no more bytes than the budget has for arrivals.
    """

    def __init__(self, operator: Operator, storage: Storage) -> None:
        self._operator, self._storage = operator, storage
        self.rows: list[list[pa.Table]] = [[] for _ in range(operator.ports)]
        self.written: list[list[Slice]] = [[] for _ in range(operator.ports)]
        self._bytes = [0] * operator.ports

    def add(self, port: int, rows: pa.Table) -> None:
        """Keep some rows, or write all that are kept if they take too much memory."""
        self.rows[port].append(rows)
        self._bytes[port] += rows.nbytes
        if self._bytes[port] > self._storage.budget.arrivals:
            self.written[port] += self._storage.write(port, self._operator.combine(port, self.rows[port]))
            self.rows[port], self._bytes[port] = [], 0


class Work:
    """The work of a site in one epoch.

    Invariant: `done` are the ranges of the items that were done, `worked` has the cost of each, and `kept` the state
    rows to keep from them. `put_off` are the ranges that were deferred on purpose, `flushed` is the seconds spent on
    work that could have been deferred. `urgent` ranges come first. Of all other ranges with equal marks, those from the
    hash `turn` on come first: it is the end of the last item, so that every range gets its turn even if marks do not
    advance. `explosions` are keys found to have very many result rows: each waits for one epoch, so that it is reported
    before it is worked on. `unworked` is how many rows of the site are pending work. Result rows are counted in
    `counts`.
    """

    def __init__(
        self,
        operator: Operator,
        limits: WorkLimits,
        branches: Branches,
        storage: Storage,
        watch: Stopwatch,
        urgent: Sequence[HashRange] = (),
        turn: int = 0,
        reported_keys: Collection[int] = (),
        *,
        clock: Clock,
        deadline: Deadline | None = None,
        counts: OutputCounts = UNCOUNTED,
    ) -> None:
        self._operator, self._limits, self._urgent = operator, limits, urgent
        self._branches, self._storage, self._watch = branches, storage, watch
        self._clock, self.deadline = clock, deadline or Deadline(limits, clock)
        self._counts, self.turn = counts, turn
        self.done: list[HashRange] = []
        self.worked: list[Worked] = []
        self.kept = Kept(operator, storage)
        self.put_off: list[HashRange] = []
        self.explosions: list[Explosion] = []
        self._reported_keys, self.unworked = reported_keys, 0
        self.flushed = 0.0

    def run(self, view: StateView, marks: AllMarks, upto: Marks, elsewhere: int = 0) -> AllMarks:
        """Do the work that is due until the deadline, and return the marks of all ranges afterwards. Work that needs
        rows that have not been fetched yet comes last. The site has `elsewhere` more rows that are pending."""
        coming = view.on_their_way()
        self.unworked = view.unworked_rows() + elsewhere
        marks, waiting = self._run_inside([EVERYTHING], marks, view, upto, coming)
        if waiting:
            nothing_else = not self.done and not view.fresh_rows
            needed = [piece for piece in coming if any(restrict([piece], waiting))]
            self._storage.wait_for(needed, self.deadline.patience(nothing_else, self._overfull))
            self._watch.lap("fetch")
            marks, _ = self._run_inside(waiting, marks, view, upto, view.on_their_way())
        return marks

    def left(self, marks: Iterable[RangeMark], upto: Marks) -> list[HashRange]:
        """Return the ranges that are behind `upto` and were not deferred on purpose."""
        return remaining([m.range for m in marks if behind(m.marks, upto)], self.put_off)

    def _run_inside(
        self, ranges: Sequence[HashRange], marks: AllMarks, view: StateView, upto: Marks, coming: Sequence[Slice]
    ) -> tuple[AllMarks, list[HashRange]]:
        """Do the work that is due in some sorted ranges, in which no work has been done yet. Return all marks, and the
        ranges that wait for the slices in `coming`."""
        inside = restricted(marks, ranges)
        work = due_ranges(
            inside, upto, view, self._operator, coalesced(piece.range for piece in coming), self._urgent, self.turn
        )
        marks = moved_to(marks, _nothing_due(inside, work, upto), upto)
        ready = [due for due in work if not due.waits]
        plan = flush(ready, marks, upto, view, self._operator, self._limits)
        self.put_off += [due.range for due in plan.later]
        now = self._in_turn(plan.now, [m.range for m in inside], view)
        marks = self._run_items(items(now, view, self._item_limits()), marks, view, upto)
        began = self._clock.monotonic()
        idle = items(plan.later, view, self._item_limits(_IDLE_ITEM_ROWS))
        marks = self._run_items(_in_idle_time(idle, self._limits, self._clock), marks, view, upto)
        self.flushed += self._clock.monotonic() - began
        self._watch.lap("work")
        return marks, sorted(due.range for due in work if due.waits)

    def _in_turn(self, work: list[DueRange], home: Sequence[HashRange], view: StateView) -> list[DueRange]:
        """Return the work of the hashes whose turn it is: those that have waited longest. That is all work, unless the
        operator looks up more state than fits into memory, and more rows are to come."""
        if not (self._limits.more_waits and isinstance(self._operator, ProbingOperator)) or self._overfull:
            return work
        parts = turns(view.fresh_rows, view.stored_bytes(), self._storage.budget.pages)
        urgent = [due for due in work if due.range in self._urgent]
        others = [due for due in work if due.range not in self._urgent]
        first = first_hashes((due.range for due in others), -(-width_of(home) // parts))
        return [*urgent, *(replace(due, range=part) for part, due in zip(first, others, strict=False))]

    def _run_items(self, work: Iterable[WorkItem], marks: AllMarks, view: StateView, upto: Marks) -> AllMarks:
        """Run items while the deadline allows it or the buffer is too full, and return the marks afterwards."""
        done = []
        for item in work:
            if not (self.deadline.allows() or self._overfull):
                break
            portion = view.portion(item.range, item.after, upto)
            if self._must_be_reported_first(portion):
                continue
            self._do(item, portion)
            done.append(item.range)
            self.deadline.done += 1
        return moved_to(marks, done, upto)

    def _item_limits(self, most_rows: int = sys.maxsize) -> PartLimits:
        return PartLimits(min(most_rows, self._limits.item_rows), self._storage.budget.item)

    @property
    def _overfull(self) -> bool:
        """Return whether more rows are pending work than may be left."""
        return self._limits.buffer_rows is not None and self.unworked > self._limits.buffer_rows

    def _must_be_reported_first(self, portion: Portion) -> bool:
        """Return whether a key of the portion has very many result rows, is not reported yet, and the portion can wait
        for an epoch."""
        if not isinstance(self._operator, Exploding):
            return False
        found = self._operator.explosion(portion, self._reported_keys)
        if found is not None:
            self.explosions.append(found)
        return found is not None and not self._overfull

    def _do(self, item: WorkItem, portion: Portion) -> None:
        """Run the operator on one item, and keep the state rows that it returns."""
        self.unworked -= portion.fresh_rows
        done = self.produce(item.range, portion)
        for port, rows in enumerate(done.keep):
            self.kept.add(port, rows)
        self.done.append(item.range)
        if item.range not in self._urgent:  # urgent items are out of turn: they must not move it
            self.turn = item.range.high % HASH_END

    def produce(self, part: HashRange, portion: Portion) -> WorkResult:
        """Run the operator on a portion, pass its results on, and record the cost."""
        began = self._clock.monotonic()
        done = self._operator.work(portion, self._counts)
        for results in done.results:  # a generator: results are not all in memory at once
            self._watch.lap("work")
            self._branches.take(results)
            self._watch.lap("emit")
        self.worked.append(Worked(part, self._clock.monotonic() - began))
        return done


@dataclass(frozen=True)
class _Flush:
    """The work list in two parts: work to do `now`, and work deferred to `later`, both in the order of the list."""

    now: list[DueRange]
    later: list[DueRange] = field(default_factory=list)


def flush(
    work: list[DueRange],
    marks: Sequence[RangeMark],
    upto: Marks,
    view: StateView,
    operator: Operator,
    limits: WorkLimits,
) -> _Flush:
    """Divide the work into what to do now and what may be deferred. At the end of the input nothing is deferred."""
    if limits.flushing.mode == EAGER or not (work and isinstance(operator, ClosesWindows)) or upto[0].ended:
        return _Flush(work)
    home, (least,) = sorted(m.range for m in marks), view.least_times()
    assert least is not None, "work that is due concerns at least one row"
    closings = [Closing(due.range, operator.first_end(due.after[0], least)) for due in work]
    parts = pressing(limits.flushing, closings, upto[0].at, operator.period, view.rows())
    share = LEAST_SHARE if view.fresh_rows else IDLE_SHARE
    now = sorted(at_least(parts, [due.range for due in work], home, share))
    return _Flush(
        [replace(one, range=part) for one in work for part in common([one.range], now)],
        [replace(one, range=part) for one in work for part in remaining([one.range], now)],
    )


def _in_idle_time(later: Iterable[WorkItem], limits: WorkLimits, clock: Clock) -> Iterator[WorkItem]:
    """Yield deferred work, in small items, until the idle seconds have passed; nothing unless the site is lazy."""
    if limits.flushing.mode != LAZY:
        return
    stop = clock.monotonic() + limits.idle_seconds
    for item in later:
        if clock.monotonic() >= stop:
            return
        yield item


@dataclass(frozen=True)
class WorkItem:
    """A work item: a range of hashes with its pending rows, and the work due between `after` and the marks of the
    epoch."""

    range: HashRange
    after: Marks


@dataclass(frozen=True)
class DueRange:
    """A range with equal marks that has work to do. `due`: there is more to do than its pending rows. `waits`: some of
    its rows have not been fetched yet."""

    range: HashRange
    after: Marks
    due: bool
    waits: bool = False


def due_ranges(
    marks: Iterable[RangeMark],
    upto: Marks,
    view: StateView,
    operator: Operator,
    away: Sequence[HashRange] = (),
    urgent: Sequence[HashRange] = (),
    turn: int = 0,
) -> list[DueRange]:
    """Return the work that is due at a site, in order: urgent ranges as given, then ranges by their marks, lowest
    first, and those with equal marks from the hash `turn` on. `away` are the sorted ranges of which some rows have not
    been fetched yet."""
    least, rank = view.least_times(), {part.low: n for n, part in enumerate(urgent)}
    found: list[DueRange] = []
    for m in marks:
        due = behind(m.marks, upto) and operator.due(m.marks, upto, least)
        parts = apart(apart([m.range], urgent), [HashRange(turn, HASH_END)] if turn else [])
        found += [DueRange(part, m.marks, due) for part in (remaining(parts, away) if away else parts)]
        found += [DueRange(part, m.marks, due, waits=True) for part in common(parts, away)]
    work = (s for s in found if s.due or view.has_unworked(s.range))
    return sorted(work, key=lambda s: (rank.get(s.range.low, len(rank)), s.after, s.range.low < turn, s.range))


def items(work: Iterable[DueRange], view: StateView, limits: PartLimits) -> Iterator[WorkItem]:
    """Yield the work in items within the limits. Lazily: with a backlog, most items are not reached."""
    ready = (due for due in work if not due.waits)
    return (WorkItem(part, due.after) for due in ready for part in view.cuts(due.range, limits))


def _nothing_due(marks: Iterable[RangeMark], work: Iterable[DueRange], upto: Marks) -> list[HashRange]:
    """Return the ranges that lag behind `upto` but have no work: their marks can advance at once."""
    return remaining([m.range for m in marks if behind(m.marks, upto)], [due.range for due in work])


class Deadline:
    """Decides whether one more item may start. The first item always may."""

    def __init__(self, limits: WorkLimits, clock: Clock) -> None:
        self._limits, self._clock = limits, clock
        self._stop = None if limits.seconds is None else clock.monotonic() + limits.seconds
        self.done = 0

    def allows(self) -> bool:
        """Return whether one more item may start."""
        if self.done == 0:
            return True
        in_time = self._stop is None or self._clock.monotonic() < self._stop
        return in_time and (self._limits.items is None or self.done < self._limits.items)

    def patience(self, nothing_else: bool, overfull: bool = False) -> float | None:
        """Return how many seconds the site may wait for rows to be fetched; None: until they are here. With a deadline
        the site does not wait, since rows are fetched in the background, unless there was no other work; if its buffer
        is `overfull`, it waits."""
        if not self.allows() and not overfull:
            return 0.0
        if self._stop is None or overfull:
            return None
        return max(0.0, self._stop - self._clock.monotonic()) if nothing_else else 0.0
