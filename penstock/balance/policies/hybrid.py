"""`hybrid`: balances state while a site holds more than its memory or has parked some, and otherwise work, as far as
memory has room (Flux, section 6.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.balance.decisions import Decision, Measured
from penstock.balance.policies.flux import Flux
from penstock.balance.policies.memory import Memory
from penstock.balance.policy import Paced
from penstock.balance.stats import RoundStats


@dataclass(frozen=True)
class Hybrid(Paced):
    """Combines `flux` for work and `memory` for state. If memory is unlimited, only work counts."""

    work: Flux = field(default_factory=Flux)
    state: Memory = field(default_factory=Memory)
    name: str = "hybrid"

    def decide(self, stats: RoundStats) -> Sequence[Decision]:
        if stats.loads.parked_bytes.any():
            return self.state.decide(stats)
        if not stats.memory:
            return self.work.decide(stats)
        room = stats.memory - stats.held
        return self.state.decide(stats) if (room < 0).any() else self.work.decide_within(stats, room)

    def next_round(self, length: float, moved: bool, measured: Measured | None) -> float:
        return self.work.next_round(length, moved, measured)
