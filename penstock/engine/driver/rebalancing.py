"""What is said to somebody who asked for sites to be evened out, once it is known what came of it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from penstock.control.requests import Answer, RebalanceRequest
from penstock.events import Rebalanced

MOST_WAIT = 10.0  # seconds; who asks waits for longer


@dataclass(frozen=True)
class Asked:
    """A request that was made at some time, about some subqueries, and what has come of it so far."""

    request: RebalanceRequest
    subqueries: Collection[int]
    at: float
    heard: tuple[Rebalanced, ...] = ()

    def after(self, event: Rebalanced) -> Asked:
        return replace(self, heard=(*self.heard, event)) if event.subquery in self.subqueries else self

    def answer(self, now: float) -> Answer | None:
        """None while it is to be waited for. Where the input rests, it may take long."""
        if {event.subquery for event in self.heard} >= set(self.subqueries):
            return Answer(None, came_of(self.heard))
        if now - self.at >= MOST_WAIT:
            return Answer(
                None,
                "not known yet: the sites are looked at after the next epochs, `penstock top` shows what comes of it",
            )
        return None


def came_of(heard: Sequence[Rebalanced]) -> str:
    if not heard:
        return "nothing to do: this query has no sites"
    told = [f"subquery {event.subquery}: {_told(event)}" for event in heard if event.changes or event.refused]
    if told:
        return "; ".join(told)
    apart = f"{100 * max(event.apart for event in heard):.0f} %"
    return f"nothing to do: no change would help, the sites of {_which(heard)} are within {apart} of each other"


def _told(event: Rebalanced) -> str:
    parts = [(event.changes, "changed"), (event.refused, "refused")]
    return ", ".join(f"{count:,} {what}" for count, what in parts if count)


def _which(heard: Sequence[Rebalanced]) -> str:
    return f"subquery {heard[0].subquery}" if len(heard) == 1 else "all subqueries"
