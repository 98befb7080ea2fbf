"""`static`: never changes anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.balance.decisions import Decision
from penstock.balance.stats import RoundStats


@dataclass(frozen=True)
class Static:
    """The policy without decisions, for comparison and for fixed placements."""

    name: str = "static"

    def decide(self, stats: RoundStats) -> Sequence[Decision]:
        return ()
