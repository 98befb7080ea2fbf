"""A stream is made up of substreams: its punctuation is the least over those that can still bring rows.

A substream holds the stream back from the epoch in which its first split is read until the one with which its source
says that it is finished. A substream that appears late may be behind the stream: its rows below the stream's mark are
late rows. The mark never goes back, because each epoch starts from a floor (see `idle`) that is no lower.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from penstock.progress.mark import BEGIN, END, Mark
from penstock.progress.rules import Rule, Seen

# How far the finished substreams came, under a name that no substream has: kept only while there is no other.
FINISHED = ""


def advance(
    rule: Rule, before: Mapping[str, Mark], seen: Iterable[Seen], finished: Collection[str] = ()
) -> dict[str, Mark]:
    """The marks of the substreams after an epoch that saw `seen`, and with which those in `finished` end."""
    parts: dict[str, list[Seen]] = {name: [] for name in before}
    for s in seen:
        parts.setdefault(s.substream, []).append(s)
    reached = {name: max(before.get(name, BEGIN), rule.mark(part)) for name, part in parts.items()}
    open_ = {name: mark for name, mark in reached.items() if name not in finished and name != FINISHED}
    if open_ or not reached:
        return open_
    # All are finished, so none holds the stream back; but what comes next may follow on any of those that just ended.
    ended = [mark for name, mark in reached.items() if name != FINISHED and mark > BEGIN]
    return {FINISHED: max(before.get(FINISHED, BEGIN), min(ended, default=BEGIN))}


def stream_mark(marks: Mapping[str, Mark], ended: bool, floor: Mark = BEGIN) -> Mark:
    """The punctuation of a stream: the least over its substreams, but not below its floor. A stream that has not shown
    any has not begun."""
    return END if ended else max(floor, min(marks.values(), default=BEGIN))


def low_water_mark(marks: Iterable[Mark]) -> Mark:
    """The bound that holds for all of the given streams; with no stream nothing can come, which is the end."""
    return min(marks, default=END)
