"""The registry of policies by name, built-in and user-defined."""

from __future__ import annotations

from penstock.balance.policies.active_disk import ActiveDisk
from penstock.balance.policies.diffusion import Diffusion
from penstock.balance.policies.even import Even
from penstock.balance.policies.flux import Flux
from penstock.balance.policies.hybrid import Hybrid
from penstock.balance.policies.lazy_disk import LazyDisk
from penstock.balance.policies.local import Local
from penstock.balance.policies.memory import Memory
from penstock.balance.policies.static import Static
from penstock.balance.policy import Policy
from penstock.errors import ConfigError, did_you_mean

_OWN: tuple[Policy, ...] = (
    Static(), Flux(), Diffusion(), Diffusion(name="elastic", elastic=True), Memory(), Hybrid(), Even(),
    Local(), LazyDisk(), ActiveDisk(),
)  # fmt: skip
_known: dict[str, Policy] = {policy.name: policy for policy in _OWN}


def register(policy: Policy) -> None:
    """Register a policy under its name. Raises ConfigError if the name is taken."""
    if policy.name in _known:
        raise ConfigError(f"a policy named `{policy.name}` already exists", hint="choose another name")
    _known[policy.name] = policy


def policy_named(name: str) -> Policy:
    """Return the policy of that name. Raises ConfigError if there is none."""
    if name not in _known:
        raise ConfigError(f"unknown policy `{name}`", hint=did_you_mean(name, _known))
    return _known[name]
