"""The work of a site in an epoch: what is due, in which order, in items of bounded size; how much of it fits before the
deadline, which closings are put off, and what came of the rest."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from penstock.balance.flushing import IDLE_SHARE, LAZY, LEAST_SHARE, Closing, at_least, pressing
from penstock.checkpoint.manifest import RangeMark
from penstock.engine.marks import behind, moved_to, restricted
from penstock.engine.stopwatch import Stopwatch
from penstock.engine.task.exchange.branches import Branches
from penstock.engine.task.site.storing import Storage
from penstock.engine.task.site.view import StateView
from penstock.engine.wire.job import Limits
from penstock.operators.protocol import ClosesWindows, Exploding, Explosion, Marks, Operator, Portion
from penstock.state.hash_ranges import EVERYTHING, HASH_END, HashRange, apart, common, remaining
from penstock.state.runs import Slice, restrict, united

AllMarks = tuple[RangeMark, ...]
_IDLE_ITEM_ROWS = 32_768  # items for idle time are small: a look at the clock follows each


@dataclass(frozen=True)
class Worked:
    """What an item came to: the seconds that it took, and the rows that the operator put out for it."""

    range: HashRange
    seconds: float
    output: int


class Work:
    """Invariant: `done` are the ranges of the items that were done, `worked` is what each of them came to, and
    `kept[port]` the state rows that they want to keep. `put_off` was left for later on purpose, and `flushed` is
    the seconds spent on what could have been. `urgent` are hashes that come first, and `turn` is the hash from
    which on all others do that have come equally far: the one behind the last item, so that each has its turn
    although marks may stand still. `explosions` are the keys that were found to give very many rows: they are left for
    the next epoch once, so that they are told of before. `_unworked` is how many rows wait for work."""

    def __init__(
        self,
        operator: Operator,
        limits: Limits,
        branches: Branches,
        storage: Storage,
        watch: Stopwatch,
        urgent: Sequence[HashRange] = (),
        turn: int = 0,
        told_keys: Collection[int] = (),
    ) -> None:
        self._operator, self._limits, self._urgent = operator, limits, urgent
        self._branches, self._storage, self._watch = branches, storage, watch
        self.deadline = Deadline(limits)
        self.turn = turn
        self.done: list[HashRange] = []
        self.worked: list[Worked] = []
        self.kept: list[list[pa.Table]] = [[] for _ in range(operator.ports)]
        self.put_off: list[HashRange] = []
        self.explosions: list[Explosion] = []
        self._told_keys, self._unworked = told_keys, 0
        self.flushed = 0.0

    def run(self, view: StateView, marks: AllMarks, upto: Marks) -> AllMarks:
        """Do what is due until the deadline; gives the marks of all ranges afterwards. What needs rows that have yet
        to be fetched comes last."""
        coming = view.on_their_way()
        self._unworked = view.unworked_rows()
        marks, waiting = self._run_inside([EVERYTHING], marks, view, upto, coming)
        if waiting:
            nothing_else = not self.done and not view.has_fresh
            needed = [piece for piece in coming if any(restrict([piece], waiting))]
            self._storage.wait_for(needed, self.deadline.patience(nothing_else, self._overfull))
            self._watch.lap("fetch")
            marks, _ = self._run_inside(waiting, marks, view, upto, view.on_their_way())
        return marks

    def left(self, marks: Iterable[RangeMark], upto: Marks) -> list[HashRange]:
        """What is behind although it was not put off."""
        return remaining([m.range for m in marks if behind(m.marks, upto)], self.put_off)

    def _run_inside(
        self, ranges: Sequence[HashRange], marks: AllMarks, view: StateView, upto: Marks, coming: Sequence[Slice]
    ) -> tuple[AllMarks, list[HashRange]]:
        """The same in some ranges, in order, of which nothing has been worked on yet; also gives those that wait for
        slices that are coming."""
        inside = restricted(marks, ranges)
        work = stretches(inside, upto, view, self._operator, united(coming), self._urgent, self.turn)
        marks = moved_to(marks, _nothing_due(inside, work, upto), upto)
        ready = [stretch for stretch in work if not stretch.waits]
        plan = flush(ready, marks, upto, view, self._operator, self._limits)
        self.put_off += [stretch.range for stretch in plan.later]
        marks = self._run_items(items(plan.now, view, self._limits.item_rows), marks, view, upto)
        began = time.perf_counter()
        marks = self._run_items(_in_idle_time(plan.later, view, self._limits), marks, view, upto)
        self.flushed += time.perf_counter() - began
        self._watch.lap("work")
        return marks, sorted(stretch.range for stretch in work if stretch.waits)

    def _run_items(self, work: Iterable[Item], marks: AllMarks, view: StateView, upto: Marks) -> AllMarks:
        done = []
        for item in work:
            if not (self.deadline.allows() or self._overfull):
                break
            portion = view.portion(item.range, item.after, upto)
            if self._is_to_be_told_first(portion):
                continue
            self._do(item, portion)
            done.append(item.range)
            self.deadline.done += 1
        return moved_to(marks, done, upto)

    @property
    def _overfull(self) -> bool:
        """Whether more rows wait for work than may be left."""
        return self._limits.buffer_rows is not None and self._unworked > self._limits.buffer_rows

    def _is_to_be_told_first(self, portion: Portion) -> bool:
        """Whether it is news that a key of the portion gives very many rows, and the portion can wait for an epoch."""
        if not isinstance(self._operator, Exploding):
            return False
        found = self._operator.explosion(portion, self._told_keys)
        if found is not None:
            self.explosions.append(found)
        return found is not None and not self._overfull

    def _do(self, item: Item, portion: Portion) -> None:
        began, output = time.perf_counter(), 0
        self._unworked -= portion.rows_to_do(True)
        done = self._operator.work(portion)
        for results in done.results:  # made one by one, so that they are not all held at once
            self._watch.lap("work")
            output += results.num_rows
            self._branches.take(results)
            self._watch.lap("emit")
        for kept, rows in zip(self.kept, done.keep, strict=True):
            kept.append(rows)
        self.done.append(item.range)
        if item.range not in self._urgent:  # what comes out of turn takes nobody else's
            self.turn = item.range.high % HASH_END
        self.worked.append(Worked(item.range, time.perf_counter() - began, output))


@dataclass(frozen=True)
class _Flush:
    """The work list in two: what is done `now`, and what is put off to `later`. Both are in the order of the list."""

    now: list[Stretch]
    later: list[Stretch] = field(default_factory=list)


def flush(
    work: list[Stretch], marks: Sequence[RangeMark], upto: Marks, view: StateView, operator: Operator, limits: Limits
) -> _Flush:
    """Put off what may wait. At the end of the input nothing may."""
    if not (limits.flushing.puts_off and work and isinstance(operator, ClosesWindows)) or upto[0].ended:
        return _Flush(work)
    home, (least,) = sorted(m.range for m in marks), view.least_times()
    assert least is not None, "what is due is due of some rows"
    closings = [Closing(stretch.range, operator.first_end(stretch.after[0], least)) for stretch in work]
    parts = pressing(limits.flushing, closings, upto[0].at, operator.period, view.rows())
    share = LEAST_SHARE if view.has_fresh else IDLE_SHARE
    now = sorted(at_least(parts, [stretch.range for stretch in work], home, share))
    return _Flush(
        [replace(one, range=part) for one in work for part in common([one.range], now)],
        [replace(one, range=part) for one in work for part in remaining([one.range], now)],
    )


def _in_idle_time(later: Iterable[Stretch], view: StateView, limits: Limits) -> Iterator[Item]:
    """What could wait, in small items, while a lazy site has nothing else to do."""
    if limits.flushing.mode != LAZY:
        return
    stop = time.monotonic() + limits.idle_seconds
    for item in items(later, view, min(_IDLE_ITEM_ROWS, limits.item_rows)):
        if time.monotonic() >= stop:
            return
        yield item


@dataclass(frozen=True)
class Item:
    """Work on a range of hashes: its unworked rows, and all that is due between `after` and the marks of the epoch."""

    range: HashRange
    after: Marks


@dataclass(frozen=True)
class Stretch:
    """A range whose marks lag alike and that has work to do; `due`: also beyond its unworked rows. It `waits` where
    some of its rows have yet to be fetched."""

    range: HashRange
    after: Marks
    due: bool
    waits: bool = False


def stretches(
    marks: Iterable[RangeMark],
    upto: Marks,
    view: StateView,
    operator: Operator,
    away: Sequence[HashRange] = (),
    urgent: Sequence[HashRange] = (),
    turn: int = 0,
) -> list[Stretch]:
    """What is due at a site: urgent ranges, in their order, then those parts that hold back its marks, and of those
    that hold them back alike the ones from the hash `turn` on. `away` are the ranges, in order, of which some rows have
    yet to be fetched."""
    least, rank = view.least_times(), {part.low: n for n, part in enumerate(urgent)}
    found: list[Stretch] = []
    for m in marks:
        due = behind(m.marks, upto) and operator.due(m.marks, upto, least)
        parts = apart(apart([m.range], urgent), [HashRange(turn, HASH_END)] if turn else [])
        found += [Stretch(part, m.marks, due) for part in (remaining(parts, away) if away else parts)]
        found += [Stretch(part, m.marks, due, waits=True) for part in common(parts, away)]
    work = (s for s in found if s.due or view.has_unworked(s.range))
    return sorted(work, key=lambda s: (rank.get(s.range.low, len(rank)), s.after, s.range.low < turn, s.range))


def items(work: Iterable[Stretch], view: StateView, rows: int) -> Iterator[Item]:
    """The work in items of about so many rows. They are made one by one: with a backlog most are not reached."""
    ready = (stretch for stretch in work if not stretch.waits)
    return (Item(part, stretch.after) for stretch in ready for part in view.cuts(stretch.range, rows))


def _nothing_due(marks: Iterable[RangeMark], work: Iterable[Stretch], upto: Marks) -> list[HashRange]:
    """The ranges that lag behind `upto` but have no work: their marks move on by themselves."""
    return remaining([m.range for m in marks if behind(m.marks, upto)], [stretch.range for stretch in work])


class Deadline:
    """Says whether one more item may be begun. The first always may."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._stop = None if limits.seconds is None else time.monotonic() + limits.seconds
        self.done = 0

    def allows(self) -> bool:
        if self.done == 0:
            return True
        in_time = self._stop is None or time.monotonic() < self._stop
        return in_time and (self._limits.items is None or self.done < self._limits.items)

    def patience(self, nothing_else: bool, overfull: bool = False) -> float | None:
        """How many seconds a site may wait for rows to be fetched; None: until they are here. With a deadline it does
        not wait at all, unless there was nothing else to do: they come in the background. A site whose buffer is
        `overfull` waits."""
        if not self.allows() and not overfull:
            return 0.0
        if self._stop is None or overfull:
            return None
        return max(0.0, self._stop - time.monotonic()) if nothing_else else 0.0
