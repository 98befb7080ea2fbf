"""Policies of Penstock with one thing different, for experiments. Only the process that runs a query knows them."""

from __future__ import annotations

from functools import lru_cache

from penstock.balance.policies import register
from penstock.balance.policies.even import Even
from penstock.balance.policies.flux import Flux
from penstock.balance.policies.pacing import Pacing
from penstock.balance.policy import Policy
from penstock.balance.tuning import TuningBounds

ROUNDS = (0.25, 0.5, 1.0, 2.0, 5.0)  # not below the length of an epoch
UNTUNED, TUNED = "even-untuned", "even-tuned"
THETA = 1_000  # rows of state: a group of more than twice as many is split


def steady_flux(seconds: float) -> Flux:
    """`flux` with rounds of one length. The paper's are at least as long as the moves before them took, but here moves
    take next to nothing: its shortest length is the length."""
    return Flux(name=f"flux-{seconds:g}", pacing=Pacing(least=seconds, most=seconds))


VARIANTS: tuple[Policy, ...] = (
    *map(steady_flux, ROUNDS),
    Even(name=TUNED, theta=THETA),
    Even(name=UNTUNED, bounds=TuningBounds(hot=0, large=0)),  # with room for no more groups, none is split
)


@lru_cache(maxsize=1)
def make_known() -> None:
    for policy in VARIANTS:
        register(policy)
