"""Rounds written by hand, any rounds, and a small cluster whose sites have speeds and whose groups have rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from penstock.balance.decisions import Decision, Move
from penstock.balance.policy import Policy
from penstock.balance.stats import FloatArray, Loads, RoundStats
from penstock.state.directory import Directory, uniform

Integers = Sequence[int] | npt.NDArray[np.int64]


def round_of(
    directory: Directory,
    rows: Integers,
    speeds: Sequence[float] | FloatArray,
    *,
    state: Integers | None = None,
    share: float | None = None,
    memory: int = 0,
) -> RoundStats:
    """`rows` came to each group, and each site works through so many in a second."""
    counts = np.asarray(rows)
    loads = replace(Loads.none(len(counts)), rows=counts, done=counts)
    loads = loads if state is None else replace(loads, state_bytes=np.asarray(state))
    sites = np.zeros(directory.sites)
    stats = RoundStats(directory, 1, 1.0, loads, sites, sites, sites, memory=memory)
    busy = stats.of_sites(loads.rows) / np.asarray(speeds)
    return replace(stats, busy=busy, share=np.full(len(busy), busy.max() if share is None else share))


def homes(directory: Directory, *of_groups: int) -> Directory:
    return replace(directory, homes=of_groups)


def moves(decisions: Sequence[Decision]) -> list[tuple[int, int, int]]:
    """(group, from, to)."""
    changes = [made.change for made in decisions]
    return [(c.group.prefix, c.source, c.target) for c in changes if isinstance(c, Move)]


def applied(directory: Directory, decisions: Sequence[Decision]) -> Directory:
    for made in decisions:
        directory = made.change.applied(directory)
    return directory


def with_sites_renamed(stats: RoundStats, names: Sequence[int]) -> RoundStats:
    """The same round where site n is called names[n]."""
    directory = replace(stats.directory, homes=tuple(names[home] for home in stats.directory.homes))
    old = np.argsort(names)
    return replace(stats, directory=directory, busy=stats.busy[old], share=stats.share[old])


def would_be_busy(stats: RoundStats, directory: Directory) -> FloatArray:
    """How long sites work if the rows of a round come again under another directory."""
    return replace(stats, directory=directory).of_sites(stats.loads.rows) / stats.speeds


@st.composite
def any_round(draw: st.DrawFn) -> RoundStats:
    sites, groups = draw(st.integers(1, 7)), 2 ** draw(st.integers(3, 5))

    def per_group(most: int) -> st.SearchStrategy[list[int]]:
        return st.lists(st.integers(0, most), min_size=groups, max_size=groups)

    directory = replace(uniform(1, groups), sites=sites, homes=tuple(draw(per_group(sites - 1))))
    speeds = draw(st.lists(st.integers(100, 400), min_size=sites, max_size=sites))
    memory = draw(st.integers(1, 50_000) | st.just(0))
    stats = round_of(directory, draw(per_group(1000)), speeds, state=draw(per_group(5000)), memory=memory)
    return replace(stats, share=stats.share * draw(st.sampled_from([1.0, 1.1, 2.0])))


@dataclass(frozen=True, eq=False)
class Cluster:
    """Invariant: a speed per site, and a rate per group of the directory. Sources are never idle, so the slowest site
    holds all others back."""

    directory: Directory
    speeds: FloatArray
    rates: FloatArray

    @property
    def throughput(self) -> float:
        """Rows in a second."""
        loads = np.bincount(self.directory.homes, weights=self.rates, minlength=self.directory.sites)
        return float(self.rates.sum() / (loads / self.speeds).max())

    @property
    def efficiency(self) -> float:
        """The part of what sites could do if work could be divided at will."""
        return self.throughput / float(self.speeds.sum())

    def a_round(self, seconds: float) -> RoundStats:
        rows = np.rint(self.rates / self.rates.sum() * self.throughput * seconds).astype(np.int64)
        return round_of(self.directory, rows, self.speeds)

    def balanced(self, policy: Policy, most_rounds: int = 500) -> tuple[Cluster, int]:
        """After as many rounds as the policy moves something, and how much it moved."""
        now, moved = self, 0
        for _ in range(most_rounds):
            decisions = policy.decide(now.a_round(10.0))
            if not decisions:
                return now, moved
            now, moved = replace(now, directory=applied(now.directory, decisions)), moved + len(decisions)
        raise AssertionError(f"still moving after {most_rounds} rounds")


def cluster(slow_sites: int, groups_per_site: int = 16, sites: int = 8) -> Cluster:
    """Equal groups, and some sites at half the speed of the others."""
    directory = uniform(sites, groups_per_site)
    speeds = np.where(np.arange(sites) < slow_sites, 500.0, 1000.0)
    return Cluster(directory, speeds, np.ones(len(directory.groups)))
