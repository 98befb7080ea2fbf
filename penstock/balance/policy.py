"""What a policy is. Pure: the figures of a round in, decisions out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from penstock.balance.decisions import Decision, Measured
from penstock.balance.stats import Round


class Policy(Protocol):
    """Decides what a subquery's directory should become. Frozen: what it knows is in its fields and in the round."""

    @property
    def name(self) -> str: ...

    def decide(self, figures: Round) -> Sequence[Decision]:
        """What to change now, the most useful first. The decisions are carried out one after the other, so a later one
        may rely on an earlier one; those that break a rule are left out."""
        ...


@runtime_checkable
class Learning(Protocol):
    """A policy that remembers something of the rounds before."""

    def after(self, figures: Round) -> Policy:
        """The policy of the next round, after this one."""
        ...


@runtime_checkable
class Paced(Protocol):
    """A policy that also says how long rounds are; with others they have a fixed length."""

    def next_round(self, length: float, moved: bool, measured: Measured | None) -> float:
        """The seconds of the next round, after one of `length` seconds. `moved`: something was decided at its end;
        `measured`: what came of the decisions before it, if there were any."""
        ...
