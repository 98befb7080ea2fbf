"""The controller of a subquery: it gathers what the sites tell, asks the policy at the end of every round, and has that
carried out which keeps the rules. Pure: a controller is a value, and every step gives the next one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from penstock.balance.decisions import Decision, Measured, Refusal
from penstock.balance.policies import policy_named
from penstock.balance.policies.static import Static
from penstock.balance.policy import Learning, Paced, Policy
from penstock.balance.rules import Rules, Standing, broken_rule, standing
from penstock.balance.stats import Mask, Round
from penstock.settings import Settings
from penstock.state.directory import Directory, Group


@dataclass(frozen=True)
class Hope:
    """What was expected of the decisions of the last round, and how fast the subquery was before them."""

    gain: float
    pace: float


@dataclass(frozen=True)
class Verdict:
    """What came of a round: the directory from now on, and how it got there."""

    directory: Directory
    accepted: tuple[Decision, ...] = ()
    refused: tuple[Refusal, ...] = ()
    measured: Measured | None = None


REST = 0.5  # of a round after one without a change: what sites tell costs them time


@dataclass(frozen=True)
class Controller:
    """Invariant: `figures` is what was heard in this round, all under one directory; None: nothing yet. `length` is the
    seconds of the round, `rested` those of them in which sites told nothing; `settled` the round until which a group
    stays where it is. `calm`: the round before changed nothing."""

    policy: Policy
    rules: Rules
    length: float
    figures: Round | None = None
    number: int = 0
    settled: Mapping[Group, int] = field(default_factory=dict)
    single: frozenset[Group] = frozenset()
    hope: Hope | None = None
    calm: bool = True
    rested: float = 0.0

    @property
    def listens(self) -> bool:
        """Whether sites are to tell what their groups came to. In a calm round the later part of it is enough: what is
        decided at its end is the same, and as soon."""
        return not self.calm or self.rested >= REST * self.length

    def passed(self, seconds: float) -> Controller:
        """After an epoch of which nobody told anything. However long it was, the other part of the round is to come."""
        return replace(self, rested=min(self.rested + seconds, REST * self.length))

    def heard(self, epoch: Round) -> Controller:
        """After one more epoch. Under another directory a round begins anew."""
        known = self.figures
        if known is None:
            return replace(self, figures=epoch)
        if known.directory != epoch.directory:
            return replace(self, figures=epoch, rested=0.0)
        return replace(self, figures=known.then(epoch))

    @property
    def due(self) -> bool:
        return self.figures is not None and self.rested + self.figures.seconds >= self.length

    def decide(self) -> tuple[Controller, Verdict]:
        """At the end of a round: what to change, and the controller of the next one."""
        assert self.figures is not None, "a round has at least one epoch"
        figures, measured = self.figures, self._measured(self.figures)
        single = self.single | _single_keys(figures)
        begin = standing(figures, self.number, self.settled, single)
        settled = _places(figures.directory, begin.settled)
        wanted = self.policy.decide(replace(figures, settled=settled, most_sites=self.rules.most_sites))
        at, accepted, refused = carried_out(self.rules, begin, wanted)
        return self._next(at, accepted, measured), Verdict(at.directory, accepted, refused, measured)

    def _measured(self, figures: Round) -> Measured | None:
        if self.hope is None or not figures.pace or not self.hope.pace:
            return None
        return Measured(self.hope.gain, 1 - figures.pace / self.hope.pace)

    def _next(self, at: Standing, accepted: Sequence[Decision], measured: Measured | None) -> Controller:
        hope = Hope(1 - prod(1 - decision.gain for decision in accepted), at.figures.pace) if accepted else None
        length = self.length
        if isinstance(self.policy, Paced):
            length = self.policy.next_round(self.length, bool(accepted), measured)
        policy = self.policy.after(at.figures) if isinstance(self.policy, Learning) else self.policy
        return replace(
            Controller(policy, self.rules, length),
            number=self.number + 1,
            settled=at.settled,
            single=at.single,
            hope=hope,
            calm=not accepted,
        )


def controllers(settings: Settings, subqueries: int) -> list[Controller]:
    """One for each subquery; none under a policy that never decides anything."""
    policy = policy_named(settings.policy)
    if isinstance(policy, Static):
        return []
    bounds = Rules(least_sites=settings.least_sites, most_sites=settings.most_sites or settings.sites)
    return [Controller(policy, bounds, settings.round_seconds) for _ in range(subqueries)]


def carried_out(
    rules: Rules, at: Standing, wanted: Sequence[Decision]
) -> tuple[Standing, tuple[Decision, ...], tuple[Refusal, ...]]:
    """One decision after the other, without those that break a rule."""
    accepted: list[Decision] = []
    refused: list[Refusal] = []
    for decision in wanted:
        if (rule := broken_rule(rules, at, decision)) is not None:
            refused.append(Refusal(decision, rule))
        else:
            at = at.after(rules, decision.change)
            accepted.append(decision)
    return at, tuple(accepted), tuple(refused)


def _places(directory: Directory, groups: Iterable[Group]) -> Mask:
    """Which groups of a directory are some that there are, or have been."""
    found = np.zeros(len(directory.groups), np.bool_)
    for group in groups:
        with suppress(KeyError):
            found[directory.place(group)] = True
    return found


def _single_keys(figures: Round) -> frozenset[Group]:
    """Groups to which only rows of one key came: splitting them would not part anything."""
    loads = figures.loads
    return frozenset(
        figures.directory.groups[n] for n in np.flatnonzero((loads.rows > 0) & (loads.heaviest == loads.rows))
    )
