"""Policies of Penstock that leave memory alone, at sites that park what exceeds it: every site of Flux spills by
itself, whatever the policy moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.balance.decisions import Decision, Measured
from penstock.balance.overflow import Overflow
from penstock.balance.policies.flux import Flux
from penstock.balance.policies.pairing import sites_in
from penstock.balance.policy import Paced
from penstock.balance.stats import RoundStats


@dataclass(frozen=True)
class SpillingFlux(Paced):
    """The moves of `flux`, which looks at work alone; a site that neither gives nor receives parks and cleans up."""

    work: Flux = field(default_factory=Flux)
    overflow: Overflow = field(default_factory=Overflow)
    name: str = "spilling-flux"

    def decide(self, stats: RoundStats) -> Sequence[Decision]:
        made = self.work.decide(stats)
        return [*made, *self.overflow.decide(stats, moving=sites_in(made))]

    def next_round(self, length: float, moved: bool, measured: Measured | None) -> float:
        return self.work.next_round(length, moved, measured)
