"""Rules by which a source's rows become punctuation.

Punctuation belongs to a substream, not to a task: the splits of one substream that an epoch reads are combined by the
rule of the source. How substreams make up a stream is in `substreams`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.expressions import Expr
from penstock.progress.mark import BEGIN, Mark, at


@dataclass(frozen=True)
class Seen:
    """What one split of a substream contributed: its place in the epoch, the largest and the last time it held, and
    the largest time among the rows that are punctuation. None: it held no such rows."""

    substream: str
    ordinal: int
    largest: int | None
    last: int | None
    punctuation: int | None = None


@dataclass(frozen=True)
class Slack:
    """Rows come at most `span` behind the largest time seen so far."""

    span: int

    def mark(self, seen: Iterable[Seen]) -> Mark:
        return max((at(s.largest - self.span) for s in seen if s.largest is not None), default=BEGIN)


@dataclass(frozen=True)
class Ordered:
    """Rows come in order of time; the last row read says how far the stream is."""

    def mark(self, seen: Iterable[Seen]) -> Mark:
        last = max(((s.ordinal, s.last) for s in seen if s.last is not None), default=None)
        return BEGIN if last is None else at(last[1])


@dataclass(frozen=True)
class Punctuated:
    """Rows for which the predicate holds say "no more rows below my time". Where it is null it does not hold.

    `keep`: such rows are data as well; otherwise they are taken out of the stream.
    """

    predicate: Expr
    keep: bool = False

    def mark(self, seen: Iterable[Seen]) -> Mark:
        return max((at(s.punctuation) for s in seen if s.punctuation is not None), default=BEGIN)


Rule = Slack | Ordered | Punctuated
