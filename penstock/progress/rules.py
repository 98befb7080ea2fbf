"""Rules by which a source's rows become punctuation.

Punctuation belongs to a substream, not to a task: the splits of one substream that an epoch reads are combined by the
substream's rule, and the stream's punctuation is the least over its substreams. It never goes backwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.progress.mark import BEGIN, END, Mark, at


@dataclass(frozen=True)
class Slack:
    """Rows come at most `span` behind the largest time seen so far."""

    span: int

    def mark(self, seen: Iterable[Seen]) -> Mark:
        return max((at(s.largest - self.span) for s in seen), default=BEGIN)


@dataclass(frozen=True)
class Ordered:
    """Rows come in order of time; the last row read says how far the stream is."""

    def mark(self, seen: Iterable[Seen]) -> Mark:
        last = max(seen, key=lambda s: s.ordinal, default=None)
        return BEGIN if last is None else at(last.last)


Rule = Slack | Ordered


@dataclass(frozen=True)
class Seen:
    """What one split of a substream contributed: its place in the epoch, the largest and the last time it held."""

    substream: str
    ordinal: int
    largest: int
    last: int


def advance(rule: Rule, before: Mapping[str, Mark], seen: Iterable[Seen]) -> dict[str, Mark]:
    """The marks of all substreams after an epoch that saw `seen`."""
    by_substream: dict[str, list[Seen]] = {name: [] for name in before}
    for s in seen:
        by_substream.setdefault(s.substream, []).append(s)
    return {name: max(before.get(name, BEGIN), rule.mark(parts)) for name, parts in by_substream.items()}


def stream_mark(marks: Mapping[str, Mark], ended: bool) -> Mark:
    """The punctuation of a stream: the least over its substreams. A stream that has not shown any has not begun."""
    return END if ended else min(marks.values(), default=BEGIN)


def low_water_mark(marks: Iterable[Mark]) -> Mark:
    """The bound that holds for all of the given streams; with no stream nothing can come, which is the end."""
    return min(marks, default=END)
