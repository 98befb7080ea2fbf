"""Rules that derive punctuation from the rows of a source.

Punctuation belongs to a substream, not to a task: the splits of one substream that an epoch reads are combined by the
rule of the source. `substreams` combines the substreams of a stream.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.expr.tree import Expr
from penstock.progress.mark import BEGIN, Mark, at


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
