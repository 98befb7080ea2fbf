"""The controller of a subquery. It adds up the statistics of the epochs of a round, asks the policy for decisions at
the end of the round, and applies those that break no rule.

Pure: a controller is an immutable value, and every step returns the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from penstock.balance.decisions import Decision, Measured, Refusal
from penstock.balance.draft import DraftDirectory, draft_of
from penstock.balance.policies import policy_named
from penstock.balance.policies.static import Static
from penstock.balance.policy import Learning, Paced, Policy
from penstock.balance.rules import Rules, broken_rule
from penstock.balance.stats import BoolArray, RoundStats
from penstock.settings import Settings
from penstock.state.directory import Directory, Group


@dataclass(frozen=True)
class ExpectedGain:
    """The gain predicted for the decisions of the last round, and the pace (seconds per row) before they took
    effect."""

    gain: float
    pace: float


@dataclass(frozen=True)
class RoundOutcome:
    """The outcome of a round: the new directory, the decisions that led to it, the decisions refused, and the measured
    gain of the round before."""

    directory: Directory
    accepted: tuple[Decision, ...] = ()
    refused: tuple[Refusal, ...] = ()
    measured: Measured | None = None


# The part of a round without statistics, after a round without changes: collecting them costs the sites time.
REST_SHARE = 0.5


@dataclass(frozen=True)
class Controller:
    """The state of the control loop of one subquery, between two epochs.

    Invariant: `stats` adds up the statistics of the epochs of this round that collected any, all of them under one
    directory; None if there is no such epoch yet. `length` is the length of the round in seconds, `rested` how many of
    these seconds passed without statistics. `cooldown_until` maps a group to the round before which it must not move
    again. `calm` is True if the previous round changed nothing.
    """

    policy: Policy
    rules: Rules
    length: float
    stats: RoundStats | None = None
    number: int = 0
    cooldown_until: Mapping[Group, int] = field(default_factory=dict)
    single: frozenset[Group] = frozenset()
    expected: ExpectedGain | None = None
    calm: bool = True
    rested: float = 0.0

    @property
    def wants_statistics(self) -> bool:
        """Return whether sites should collect statistics in the next epoch. After a round without changes the first
        part of a round goes without them: the decision at the end is the same, at less cost."""
        return not self.calm or self.rested >= REST_SHARE * self.length

    def skip(self, seconds: float) -> Controller:
        """Count an epoch without statistics as part of the round, at most `REST_SHARE` of it, however long the epoch
        was, so that the rest of the round is always measured."""
        return replace(self, rested=min(self.rested + seconds, REST_SHARE * self.length))

    def observe(self, epoch: RoundStats) -> Controller:
        """Add the statistics of one epoch. A round starts again if the directory changed."""
        known = self.stats
        if known is None:
            return replace(self, stats=epoch)
        if known.directory != epoch.directory:
            return replace(self, stats=epoch, rested=0.0)
        return replace(self, stats=known.then(epoch))

    @property
    def due(self) -> bool:
        """Return whether the round is over."""
        return self.stats is not None and self.rested + self.stats.seconds >= self.length

    def decide(self) -> tuple[Controller, RoundOutcome]:
        """End the round: return the controller of the next round and the outcome of this one. Requires statistics of at
        least one epoch."""
        assert self.stats is not None, "a round has at least one epoch"
        stats, measured = self.stats, self._measured(self.stats)
        single = self.single | _single_keys(stats)
        begin = draft_of(stats, self.number, self.cooldown_until, single)
        seen = replace(_with_limits(stats, self.rules, begin.cooldown_until), rested=self.rested)
        at, accepted, refused = carried_out(self.rules, begin, self.policy.decide(seen))
        policy = self.policy.after(seen) if isinstance(self.policy, Learning) else self.policy
        following = self._next(policy, at, accepted, measured)
        return following, RoundOutcome(at.directory, accepted, refused, measured)

    def _measured(self, stats: RoundStats) -> Measured | None:
        """Compare the predicted gain of the last decisions with the change of pace since; None if nothing was decided,
        or if a pace is unknown."""
        if self.expected is None or not stats.pace or not self.expected.pace:
            return None
        return Measured(self.expected.gain, 1 - stats.pace / self.expected.pace)

    def _next(
        self, policy: Policy, at: DraftDirectory, accepted: Sequence[Decision], measured: Measured | None
    ) -> Controller:
        gain = 1 - prod(1 - decision.gain for decision in accepted)
        expected = ExpectedGain(gain, at.stats.pace) if accepted else None
        length = self.length
        if isinstance(self.policy, Paced):
            length = self.policy.next_round(self.length, bool(accepted), measured)
        return replace(
            Controller(policy, self.rules, length),
            number=self.number + 1,
            cooldown_until=at.cooldown_until,
            single=at.single,
            expected=expected,
            calm=not accepted,
        )


def controllers(settings: Settings, subqueries: int) -> list[Controller]:
    """Return one controller per subquery, or an empty list if the policy never decides anything."""
    policy = policy_named(settings.policy)
    if isinstance(policy, Static):
        return []
    bounds = Rules(least_sites=settings.least_sites, most_sites=settings.most_sites or settings.sites)
    return [Controller(policy, bounds, settings.round_seconds) for _ in range(subqueries)]


def carried_out(
    rules: Rules, at: DraftDirectory, wanted: Sequence[Decision]
) -> tuple[DraftDirectory, tuple[Decision, ...], tuple[Refusal, ...]]:
    """Apply decisions one after the other, leaving out those that break a rule. Returns the state after them, the
    accepted decisions and the refusals."""
    accepted: list[Decision] = []
    refused: list[Refusal] = []
    for decision in wanted:
        if (rule := broken_rule(rules, at, decision)) is not None:
            refused.append(Refusal(decision, rule))
        else:
            at = at.after(rules.cool_down, decision.change)
            accepted.append(decision)
    return at, tuple(accepted), tuple(refused)


def _with_limits(stats: RoundStats, rules: Rules, in_cooldown: Iterable[Group]) -> RoundStats:
    """Return the statistics with what the rules allow, so that a policy does not ask for anything else."""
    stays = _places(stats.directory, in_cooldown)
    least, most = rules.least_sites, rules.most_sites
    return replace(stats, in_cooldown=stays, least_sites=least, most_sites=most, budget=rules.budget)


def _places(directory: Directory, groups: Iterable[Group]) -> BoolArray:
    """Return a mask over the groups of `directory` that marks the given groups. Groups that no longer exist are
    ignored."""
    found = np.zeros(len(directory.groups), np.bool_)
    for group in groups:
        with suppress(KeyError):
            found[directory.place(group)] = True
    return found


def _single_keys(stats: RoundStats) -> frozenset[Group]:
    """Return the groups whose rows in this round all had one key: splitting such a group would not divide its work."""
    loads = stats.loads
    return frozenset(
        stats.directory.groups[n] for n in np.flatnonzero((loads.rows > 0) & (loads.heaviest == loads.rows))
    )
