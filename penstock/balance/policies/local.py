"""`local`: every site that exceeds its memory parks state, and nothing moves (D-Cape, section 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.balance.decisions import Decision
from penstock.balance.overflow import Overflow
from penstock.balance.stats import RoundStats


@dataclass(frozen=True)
class Local:
    """Each site decides by itself, as `overflow` says: for comparison, and for a single site."""

    overflow: Overflow = field(default_factory=Overflow)
    name: str = "local"

    def decide(self, stats: RoundStats) -> Sequence[Decision]:
        return self.overflow.decide(stats)
