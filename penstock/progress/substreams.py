"""Substreams: the punctuation of a stream is the minimum over the substreams that can still bring rows.

A substream counts from the epoch in which its first split is read until its source reports that it is finished. A
substream that appears late may be behind the stream: its rows below the mark of the stream are late rows. The mark
never goes back, because each epoch starts from a floor (see `idle`) that is no lower.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from penstock.progress.mark import BEGIN, END, Mark
from penstock.progress.rules import Rule, Seen

# The key of the mark that the finished substreams reached; no substream has this name. Present only if no other is.
FINISHED = ""


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
