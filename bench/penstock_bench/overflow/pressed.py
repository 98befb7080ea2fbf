"""Sites of which another process takes memory (Flux, section 6.2). Penstock has one limit for all sites of a query, so
this is done from outside: a policy sees the bytes of the other process as held by the site.

Then the room of a site is its own memory less its state, which is the excess capacity of Flux, section 6.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from penstock.balance.decisions import Decision, Measured
from penstock.balance.policy import Paced, Policy
from penstock.balance.stats import FloatArray, RoundStats

SITE = 0  # the one whose memory is taken
TAKEN = 0.5  # part of it


@dataclass(frozen=True, eq=False)
class PressedStats(RoundStats):
    """The statistics of a round in which each site has `taken` bytes less of its memory."""

    taken: tuple[float, ...] = ()

    @cached_property
    def held(self) -> FloatArray:
        """Return the bytes of active state of each site's groups, and those of the other process."""
        return np.asarray(self.of_sites(self.loads.state_bytes) + np.asarray(self.taken), np.float64)


@dataclass(frozen=True)
class Pressed:
    """A policy that knows of the other process from an epoch on. Rounds have no numbers: an epoch is known by the rows
    that arrived last."""

    inner: Policy
    since: int

    @property
    def name(self) -> str:
        return self.inner.name

    def decide(self, stats: RoundStats) -> Sequence[Decision]:
        return self.inner.decide(self._seen(stats))

    def _seen(self, stats: RoundStats) -> RoundStats:
        if int(stats.loads.last_used.max(initial=0)) < self.since:
            return stats
        taken = tuple(TAKEN * stats.memory * (site == SITE) for site in range(stats.directory.sites))
        return PressedStats(**{field.name: getattr(stats, field.name) for field in fields(RoundStats)}, taken=taken)


@dataclass(frozen=True)
class PressedPaced(Pressed, Paced):
    """The same for a policy that sets the length of rounds."""

    def next_round(self, length: float, moved: bool, measured: Measured | None) -> float:
        assert isinstance(self.inner, Paced)
        return self.inner.next_round(length, moved, measured)


def pressed(policy: Policy, since: int) -> Pressed:
    """Return the policy as it decides while another process takes memory."""
    return PressedPaced(policy, since) if isinstance(policy, Paced) else Pressed(policy, since)
