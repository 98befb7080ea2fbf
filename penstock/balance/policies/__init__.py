"""The policies by their names, Penstock's own and those of users."""

from __future__ import annotations

from penstock.balance.policies.diffusion import Diffusion
from penstock.balance.policies.even import Even
from penstock.balance.policies.flux import Flux
from penstock.balance.policies.hybrid import Hybrid
from penstock.balance.policies.memory import Memory
from penstock.balance.policies.static import Static
from penstock.balance.policy import Policy
from penstock.errors import ConfigError, did_you_mean

_OWN: tuple[Policy, ...] = (
    Static(), Flux(), Diffusion(), Diffusion(name="elastic", elastic=True), Memory(), Hybrid(), Even(),
)  # fmt: skip
_known: dict[str, Policy] = {policy.name: policy for policy in _OWN}


def register(policy: Policy) -> None:
    """Make a policy known by its name; Penstock's own keep theirs."""
    if policy.name in _known:
        raise ConfigError(f"there is a policy `{policy.name}` already", hint="give yours another name")
    _known[policy.name] = policy


def policy_named(name: str) -> Policy:
    if name not in _known:
        raise ConfigError(f"unknown policy `{name}`", hint=did_you_mean(name, _known))
    return _known[name]
