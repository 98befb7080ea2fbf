"""Lead control: divides the rows of an epoch among the sources, and the substreams of each, so that none runs ahead of
the others in event time. Pure.

Rows that a source reads ahead are kept as state until the others have caught up, so a source may lead the lowest one by
a limited span of event time. The lowest is never held back, and also gets what the leaders may not use. A source with
nothing to read holds no other back: it reads as fast as its rows arrive. The same holds for substreams.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from penstock.progress.mark import BEGIN, Mark


@dataclass(frozen=True)
class SourceLead:
    """The progress of a source or a substream, with estimates about its rows.

    `waiting` is the number of rows ready to be read, as far as known. `span_per_row` is a moving average of the event
    time by which one row advances the mark (0: unknown). Only sources with the same `clock` can lead each other.
    `given` is the rows read since the source was at `mark`.
    """

    mark: Mark
    ended: bool = False
    waiting: int = 0
    span_per_row: float = 0.0
    clock: str = ""
    given: int = 0

    def asked(self, share: int, given: int, waiting: int) -> Self:
        """Return the state after an epoch in which the source had a share of `share` rows, gave `given` and reported
        `waiting` more. With a share of 0 it was not asked. Rows given count for more than rows reported: not every
        source can report."""
        if share == 0:
            return replace(self, given=0)
        return replace(self, given=given, waiting=max(waiting, int(given >= share)) if given else 0)

    def reached(self, mark: Mark, ended: bool) -> Self:
        """Return the state after the rows it gave advanced it to `mark`."""
        span = self.span_per_row
        if self.given and self.mark > BEGIN and not ended:
            measured = (mark.at - self.mark.at) / self.given
            span = (span + measured) / 2 if span else measured
        return replace(self, mark=mark, ended=ended, span_per_row=span, given=0)


@dataclass(frozen=True)
class LeadOfSource(SourceLead):
    """The progress of a source. `substreams` are those that can be held back one by one and have a mark."""

    substreams: Mapping[str, SourceLead] = field(default_factory=dict)


def shares(rows: int, sources: Sequence[SourceLead], max_lead: int | None) -> tuple[int, ...]:
    """Return how many of `rows` rows each source may give to the next epoch; a source with 0 is not asked.

    The shares are equal as long as no source leads too far (`max_lead` None: no limit). Their sum is at most `rows`, or
    one row per source that may give any if that is more.
    """
    even = max(1, rows // max(1, sum(not source.ended for source in sources)))
    if max_lead is None:
        return tuple(0 if source.ended else even for source in sources)
    lowest = _lowest(sources)
    given = [_share(s, sources[lowest[s.clock]] if s.clock in lowest else None, even, max_lead) for s in sources]
    for clock, place in lowest.items():
        held = [share for s, share in zip(sources, given, strict=True) if s.clock == clock and not s.ended]
        given[place] += even * len(held) - sum(held)
    return tuple(given)


def substream_shares(
    rows: int, substreams: Mapping[str, SourceLead], lowest: Mark | None, max_lead: int
) -> dict[str, int]:
    """Return how many of `rows` rows of a source each of its substreams may give. A substream leads neither the lowest
    of them by more than `max_lead`, nor `lowest`, the lowest mark of all sources with their clock (None: there is
    none)."""
    if not substreams:
        return {}
    even = max(1, rows // len(substreams))
    own = min(substreams, key=lambda name: substreams[name].mark)
    base = substreams[own].mark if lowest is None else min(substreams[own].mark, lowest)
    given = {name: _share(known, SourceLead(base), even, max_lead) for name, known in substreams.items()}
    return given | {own: given[own] + even * len(given) - sum(given.values())} if given[own] else given


def lowest_marks(sources: Sequence[SourceLead]) -> dict[str, Mark]:
    """Return, per clock, the mark of the source that the others may not lead too far."""
    return {clock: sources[place].mark for clock, place in _lowest(sources).items()}


def _lowest(sources: Sequence[SourceLead]) -> dict[str, int]:
    """Return, per clock, the index of the source that the others may not lead too far: the lowest of those with rows to
    read, because they advance when asked."""
    candidates = [n for n, source in enumerate(sources) if source.waiting and not source.ended]
    highest_first = sorted(candidates, key=lambda n: (sources[n].mark, n), reverse=True)
    return {sources[n].clock: n for n in highest_first}


def _share(source: SourceLead, lowest: SourceLead | None, even: int, max_lead: int) -> int:
    """Return the share of a source: `even`, or less if it would lead `lowest` too far, or 0 if it leads too far
    already."""
    if source.ended:
        return 0
    lead = source.mark.at - lowest.mark.at if lowest else 0
    if lead <= 0:
        return even
    if lead >= max_lead:
        return 0
    # Assume that the lowest does not advance, so that a leader keeps to its bound even then.
    room = (max_lead - lead) / source.span_per_row if source.span_per_row else even
    return max(1, int(min(even, room)))
