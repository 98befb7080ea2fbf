"""How the sources, and the substreams of each, share what an epoch may take in, so that none runs ahead of the others
in event time. Pure.

What a source reads ahead has to be kept as state until the others have come as far, so a source may lead the lowest one
by a span of event time, and no further. The lowest is never held back, and gets what the leaders may not use. A source
with nothing to read holds nobody back: nobody reads faster than it, there is only more to read elsewhere. The same is
true of substreams.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from penstock.progress.mark import BEGIN, Mark


@dataclass(frozen=True)
class Standing:
    """How far a source or a substream has come, and what is known of its rows.

    `waiting` is the rows that are there as far as is known, `span_per_row` the event time by which a row carried the
    mark on, of late (0: not known). Only sources of the same `clock` can lead each other. `given` is the rows that it
    has given since it was at `mark`.
    """

    mark: Mark
    ended: bool = False
    waiting: int = 0
    span_per_row: float = 0.0
    clock: str = ""
    given: int = 0

    def asked(self, share: int, given: int, waiting: int) -> Self:
        """After it was to give `share` rows to an epoch, gave `given`, and told how many wait; with no share it was not
        asked at all. What it gave counts for more than what it told: not every source can tell."""
        if share == 0:
            return replace(self, given=0)
        return replace(self, given=given, waiting=max(waiting, int(given >= share)) if given else 0)

    def reached(self, mark: Mark, ended: bool) -> Self:
        """After the rows that it gave have brought it to `mark`."""
        span = self.span_per_row
        if self.given and self.mark > BEGIN and not ended:
            measured = (mark.at - self.mark.at) / self.given
            span = (span + measured) / 2 if span else measured
        return replace(self, mark=mark, ended=ended, span_per_row=span, given=0)


@dataclass(frozen=True)
class SourceStanding(Standing):
    """`substreams` are those that can be held back one by one, and have come somewhere."""

    substreams: Mapping[str, Standing] = field(default_factory=dict)


def shares(rows: int, sources: Sequence[Standing], max_lead: int | None) -> tuple[int, ...]:
    """How many of `rows` rows each source may give to the coming epoch; with 0 it is not to be asked.

    The shares are even where no source leads too far (`max_lead` None: where none can). They are together at most
    `rows`, but one for each source that may give any.
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
    rows: int, substreams: Mapping[str, Standing], lowest: Mark | None, max_lead: int
) -> dict[str, int]:
    """How many of `rows` rows of a source each of its substreams may give. They lead neither the lowest of them too far
    nor `lowest`, which is that of all sources of their clock."""
    if not substreams:
        return {}
    even = max(1, rows // len(substreams))
    own = min(substreams, key=lambda name: substreams[name].mark)
    base = substreams[own].mark if lowest is None else min(substreams[own].mark, lowest)
    given = {name: _share(known, Standing(base), even, max_lead) for name, known in substreams.items()}
    return given | {own: given[own] + even * len(given) - sum(given.values())} if given[own] else given


def lowest_marks(sources: Sequence[Standing]) -> dict[str, Mark]:
    """How far the source of each clock has come that the others may not lead too far."""
    return {clock: sources[place].mark for clock, place in _lowest(sources).items()}


def _lowest(sources: Sequence[Standing]) -> dict[str, int]:
    """The place of the source of each clock that the others may not lead too far: it has rows, so it comes on when it
    is asked."""
    candidates = [n for n, source in enumerate(sources) if source.waiting and not source.ended]
    highest_first = sorted(candidates, key=lambda n: (sources[n].mark, n), reverse=True)
    return {sources[n].clock: n for n in highest_first}


def _share(source: Standing, lowest: Standing | None, even: int, max_lead: int) -> int:
    if source.ended:
        return 0
    lead = source.mark.at - lowest.mark.at if lowest else 0
    if lead <= 0:
        return even
    if lead >= max_lead:
        return 0
    # The lowest is taken to stay where it is: a leader then keeps to its bound even if it does.
    room = (max_lead - lead) / source.span_per_row if source.span_per_row else even
    return max(1, int(min(even, room)))
