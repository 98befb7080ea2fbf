"""Policies of Penstock with other thresholds, which only the process that runs an experiment knows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from penstock.balance.overflow import CleanUps, Overflow
from penstock.balance.policies import register
from penstock.balance.policies.active_disk import ActiveDisk
from penstock.balance.policies.flux import Flux
from penstock.balance.policies.hybrid import Hybrid
from penstock.balance.policies.lazy_disk import LazyDisk
from penstock.balance.policies.local import Local
from penstock.balance.policies.memory import Memory
from penstock.balance.policies.static import Static
from penstock.balance.policy import Policy
from penstock.balance.victims import Victims
from penstock_bench.overflow.pressed import pressed
from penstock_bench.overflow.spilling import SpillingFlux


@dataclass(frozen=True)
class Choice:
    """A policy: `kind` is its name in Penstock, the other fields are thresholds where it has them; sites under `flux`
    park, too. From the epoch `pressed_from` on, another process takes half of the memory of site 0."""

    kind: str
    portion: float = 0.3
    productive_first: bool = False
    room: float = 0.5
    balanced: float = 0.8
    span: float = 45.0
    pressed_from: int | None = None

    @property
    def overflow(self) -> Overflow:
        victims = Victims(portion=self.portion, productive_first=self.productive_first)
        return Overflow(victims=victims, clean_ups=CleanUps(room=self.room))


@lru_cache(maxsize=256)
def known_as(choice: Choice) -> str:
    """Make a policy known, once; return its name."""
    name = f"{choice.kind}-{known_as.cache_info().misses}"
    policy = _policy(choice, name)
    register(policy if choice.pressed_from is None else pressed(policy, choice.pressed_from))
    return name


def _policy(choice: Choice, name: str) -> Policy:
    overflow = choice.overflow
    lazy = LazyDisk(choice.balanced, choice.span, overflow)
    match choice.kind:
        case "local":
            return Local(overflow, name)
        case "lazy-disk":
            return LazyDisk(choice.balanced, choice.span, overflow, name=name)
        case "active-disk":
            return ActiveDisk(lazy, name=name)
        case "memory":
            return Memory(overflow=overflow, name=name)
        case "flux":
            return SpillingFlux(overflow=overflow, name=name)
        case "hybrid":
            return Hybrid(Flux(), Memory(overflow=overflow), name)
    assert choice.kind == "static", choice.kind
    return Static(name)
