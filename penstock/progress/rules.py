"""Rules by which a source's rows become punctuation.

Punctuation belongs to a substream, not to a task: the splits of one substream that an epoch reads are combined by the
rule of the source. How substreams make up a stream is in `substreams`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.expr.tree import Expr
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
    """Rows come at most `span` behind the largest time seen so far. `allowed`: the punctuation stays that much further
    behind, so that rows which come later than the rule says still find what they belong to open."""

    span: int
    allowed: int = 0

    def mark(self, seen: Iterable[Seen]) -> Mark:
        back = self.span + self.allowed
        return max((at(s.largest - back) for s in seen if s.largest is not None), default=BEGIN)


@dataclass(frozen=True)
class Ordered:
    """Rows come in order of time; the last row read says how far the stream is. `allowed` as for Slack."""

    allowed: int = 0

    def mark(self, seen: Iterable[Seen]) -> Mark:
        last = max(((s.ordinal, s.last) for s in seen if s.last is not None), default=None)
        return BEGIN if last is None else at(last[1] - self.allowed)


@dataclass(frozen=True)
class Punctuated:
    """Rows for which the predicate holds say "no more rows below my time". Where it is null it does not hold.

    `keep`: such rows are data as well; otherwise they are taken out of the stream. `allowed` as for Slack.
    """

    predicate: Expr
    keep: bool = False
    allowed: int = 0

    def mark(self, seen: Iterable[Seen]) -> Mark:
        said = (s.punctuation for s in seen if s.punctuation is not None)
        return max((at(time - self.allowed) for time in said), default=BEGIN)


Rule = Slack | Ordered | Punctuated
