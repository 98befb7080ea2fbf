"""Policies of users."""

from __future__ import annotations

from penstock.balance.policies import register
from penstock.balance.policy import Policy


def register_policy(policy: Policy) -> None:
    """Make a policy known, so that `policy = 'its name'` chooses it."""
    register(policy)
