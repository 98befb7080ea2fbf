"""The interface of balancing policies. Pure: the statistics of a round in, decisions out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

from penstock.balance.decisions import Decision, Measured
from penstock.balance.stats import RoundStats


class Policy(Protocol):
    """A policy decides how the directory of a subquery should change. Policies are immutable: all they know is in their
    fields and in the statistics of the round."""

    @property
    def name(self) -> str: ...

    def decide(self, stats: RoundStats) -> Sequence[Decision]:
        """Return the changes to make now, the most useful first. They are applied in this order, so a decision may rely
        on earlier ones; decisions that break a rule are left out."""
        ...


class Learning(ABC):
    """Base of policies that carry knowledge from one round to the next. A policy declares that by this base; a method
    `after` alone means nothing."""

    @abstractmethod
    def after(self, stats: RoundStats) -> Policy:
        """Return the policy for the next round, given the statistics of this one, which `decide` had, too."""


class Paced(ABC):
    """Base of policies that also set the length of rounds; with other policies the length is fixed."""

    @abstractmethod
    def next_round(self, length: float, moved: bool, measured: Measured | None) -> float:
        """Return the seconds of the next round, after a round of `length` seconds. `moved` is True if something was
        decided at its end; `measured` is the outcome of the decisions before it, None if there were none."""
