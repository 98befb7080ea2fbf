"""Marks, the rules that derive them from rows, and the mark of a stream of several substreams.

A mark is a bound on progress: "no more rows below `at`" or, once `ended`, "no more rows at all".

The end of a stream is a flag, not the largest time, so that a row at the largest time is still a row. Marks are
ordered; arithmetic on them saturates at the limits of a 64-bit time.

Punctuation belongs to a substream, not to a task: the splits of one substream that an epoch reads are combined by the
rule of the source. The punctuation of a stream is the minimum over the substreams that can still bring rows. A
substream counts from the epoch in which its first split is read until its source reports that it is finished. One that
appears late may be behind the stream: its rows below the mark of the stream are late rows. The mark never goes back,
because each epoch starts from a floor (see `idle`) that is no lower.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from penstock.expr.tree import Expr

MIN_TIME = -(2**63)
MAX_TIME = 2**63 - 1


# The key of the mark that the finished substreams reached; no substream has this name. Present only if no other is.
FINISHED = ""


def saturate(time: int) -> int:
    """Return the nearest 64-bit time."""
    return max(MIN_TIME, min(MAX_TIME, time))


@dataclass(frozen=True, order=True)
class Mark:
    """A bound on progress: no more rows below `at` or, if `ended`, no more rows.

    Invariant: MIN_TIME <= at <= MAX_TIME, and an ended mark has at == MAX_TIME, so that all ended marks are equal.
    """

    ended: bool
    at: int

    def shift(self, by: int) -> Mark:
        """Return the mark moved by a span of time. An ended mark stays as it is."""
        return self if self.ended else at(self.at + by)

    def behind(self, lead: int | None) -> Mark:
        """Return the bound on a time from the mark of another that exceeds it by at most `lead` (None: no limit)."""
        if self.ended:
            return self
        return BEGIN if lead is None else self.shift(-lead)

    def has_reached(self, time: int) -> bool:
        """Return whether no more rows below `time` can arrive."""
        return self.ended or self.at >= time

    def is_beyond(self, time: int) -> bool:
        """Return whether no more rows at or below `time` can arrive."""
        return self.ended or self.at > time


def at(time: int) -> Mark:
    """Return the mark "no more rows below `time`"."""
    return Mark(False, saturate(time))


BEGIN = Mark(False, MIN_TIME)
END = Mark(True, MAX_TIME)


Marks = tuple[Mark, ...]  # one per track


@dataclass(frozen=True)
class Seen:
    """The times that one split of a substream contributed: the ordinal of the split in the epoch, the largest and the
    last time, and the largest time of the rows that are punctuation. None: there were no such rows."""

    substream: str
    ordinal: int
    largest: int | None
    last: int | None
    punctuation: int | None = None


@dataclass(frozen=True)
class Slack:
    """Bounded disorder: rows arrive at most `span` behind the largest time so far (Flink's bounded out-of-orderness).

    `allowed` delays the punctuation further, so that rows later than `span` still find their windows open.
    """

    span: int
    allowed: int = 0

    def mark(self, seen: Iterable[Seen]) -> Mark:
        """Return the largest time seen, minus the span and the allowed lateness. BEGIN if there were no rows."""
        back = self.span + self.allowed
        return max((at(s.largest - back) for s in seen if s.largest is not None), default=BEGIN)


@dataclass(frozen=True)
class Ordered:
    """Rows arrive in order of time, so the last row read gives the progress. `allowed` as in Slack."""

    allowed: int = 0

    def mark(self, seen: Iterable[Seen]) -> Mark:
        """Return the time of the last row of the last split with rows, minus the allowed lateness. BEGIN if there were
        no rows."""
        last = max(((s.ordinal, s.last) for s in seen if s.last is not None), default=None)
        return BEGIN if last is None else at(last[1] - self.allowed)


@dataclass(frozen=True)
class Punctuated:
    """Rows that satisfy the predicate say "no more rows below my time". A null result counts as false.

    `keep`: such rows are also data; otherwise they are removed from the stream. `allowed` as in Slack.
    """

    predicate: Expr
    keep: bool = False
    allowed: int = 0

    def mark(self, seen: Iterable[Seen]) -> Mark:
        """Return the largest time of the punctuation rows, minus the allowed lateness. BEGIN if there were none."""
        said = (s.punctuation for s in seen if s.punctuation is not None)
        return max((at(time - self.allowed) for time in said), default=BEGIN)


Rule = Slack | Ordered | Punctuated


def advance(
    rule: Rule, before: Mapping[str, Mark], seen: Iterable[Seen], finished: Collection[str] = ()
) -> dict[str, Mark]:
    """Return the marks by substream after an epoch that read `seen`, and at whose end the substreams in `finished`
    end."""
    parts: dict[str, list[Seen]] = {name: [] for name in before}
    for s in seen:
        parts.setdefault(s.substream, []).append(s)
    reached = {name: max(before.get(name, BEGIN), rule.mark(part)) for name, part in parts.items()}
    open_ = {name: mark for name, mark in reached.items() if name not in finished and name != FINISHED}
    if open_ or not reached:
        return open_
    # All are finished, so none holds the stream back. New substreams may continue any of those that just ended, so the
    # stream advances only to the minimum of these.
    ended = [mark for name, mark in reached.items() if name != FINISHED and mark > BEGIN]
    return {FINISHED: max(before.get(FINISHED, BEGIN), min(ended, default=BEGIN))}


def stream_mark(marks: Mapping[str, Mark], ended: bool, floor: Mark = BEGIN) -> Mark:
    """Return the punctuation of a stream: the minimum over its substreams, but not below its floor. BEGIN without
    substreams and floor."""
    return END if ended else max(floor, min(marks.values(), default=BEGIN))


def low_water_mark(marks: Iterable[Mark]) -> Mark:
    """Return the minimum of the marks of all streams: the bound that holds for each of them. END without streams."""
    return min(marks, default=END)
