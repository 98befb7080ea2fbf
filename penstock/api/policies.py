"""Building blocks of a policy: the statistics of a round in, decisions out. Includes the built-in policies, so that a
custom policy can reuse one with other thresholds."""

from __future__ import annotations

from penstock.balance.decisions import CleanUp, Decision, Gather, Merge, Move, Park, Scale, SplitGroup, Spread
from penstock.balance.overflow import CleanUps, Overflow
from penstock.balance.policies import register
from penstock.balance.policies.active_disk import ActiveDisk
from penstock.balance.policies.diffusion import Diffusion
from penstock.balance.policies.even import Even
from penstock.balance.policies.flux import Flux
from penstock.balance.policies.hybrid import Hybrid
from penstock.balance.policies.lazy_disk import LazyDisk
from penstock.balance.policies.local import Local
from penstock.balance.policies.memory import Memory
from penstock.balance.policy import Learning, Paced, Policy
from penstock.balance.stats import Loads, MemoryUse, RoundStats
from penstock.balance.victims import Victims
from penstock.errors import ConfigError

__all__ = [
    "ActiveDisk", "CleanUp", "CleanUps", "Decision", "Diffusion", "Even", "Flux", "Gather", "Hybrid", "LazyDisk",
    "Learning", "Loads", "Local", "Memory", "MemoryUse", "Merge", "Move", "Overflow", "Paced", "Park", "Policy",
    "RoundStats", "Scale", "SplitGroup", "Spread", "Victims",
]  # fmt: skip


def register_policy(policy: Policy) -> None:
    """Register a policy, so that `policy = '<its name>'` selects it. A policy is any value with a `name` and a method
    `decide(round)`."""
    named, decides = getattr(policy, "name", None), getattr(policy, "decide", None)
    if isinstance(policy, type) or not isinstance(named, str) or not callable(decides):
        raise ConfigError(
            f"`{policy!r}` is not a policy",
            detail="a policy is a value with a `name`, which is a string, and a method `decide(round)`",
            hint="pass a value, as in register_policy(Mine()), not its class",
        )
    register(policy)
