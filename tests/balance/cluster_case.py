"""The cluster of Flux (sections 3, 5.4 and 6.2) in figures: 32 sites, some of them slowed by another process, under the
controller and its rules, epoch by epoch and in no time. The sources are never idle, so the slowest site holds back all
others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

import numpy as np
import numpy.typing as npt

from penstock.balance.controller import RoundOutcome, controllers
from penstock.balance.decisions import Move
from penstock.balance.move_costs import FetchTimes
from penstock.balance.stats import FloatArray, Loads, RoundStats
from penstock.settings import Settings
from penstock.state.directory import Directory, uniform

SITES = 32
KEY_BITS = 14  # every key is a prefix of the hash of this length: 16K keys
ROW_SECONDS = 45e-6
ROW_BYTES = 80
SLOWED = 0.43  # the speed that is left beside a process which takes 100 of every 150 microseconds
EPOCH = 0.5  # seconds that an epoch aims at
MB = 1_000_000
CALM = 6  # rounds without a change in a row, after which a policy has settled
Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Cluster:
    """`weights` is the part of the rows that each key has, `state` its bytes. Every site may hold `memory` bytes of
    them (0: no bound). A site waits `fetch` seconds for each byte that moves to it (0: it is read in place). `noise` is
    the part by which the time of a site varies from epoch to epoch."""

    directory: Directory
    speeds: FloatArray
    weights: FloatArray
    state: FloatArray
    memory: int = 0
    fetch: float = 0.0
    noise: float = 0.01

    @cached_property
    def throughput(self) -> float:
        """Rows in a second, while nothing moves."""
        return float(1 / (self._of_sites(self._shares) * ROW_SECONDS / self.speeds).max())

    @property
    def efficiency(self) -> float:
        """The part of what the sites could do if work could be divided at will."""
        return self.throughput * ROW_SECONDS / float(self.speeds.sum())

    @property
    def held(self) -> FloatArray:
        """Bytes of state at each site."""
        return self._of_sites(self._state_of_groups)

    @property
    def possible(self) -> float:
        """The part of what the sites could do that is possible where none may hold more than its memory. Every byte of
        state has the same work."""
        most = self.memory / float(self.state.sum()) if self.memory else 1.0
        times = np.linspace(0.0, 1.0, 10_001) / self.speeds.min()  # the work of all sites is 1
        done = np.minimum(np.outer(times, self.speeds), most).sum(axis=1)
        return float(1 / (times[np.argmax(done >= 1 - 1e-9)] * self.speeds.sum()))

    def epoch(self, rng: np.random.Generator, fetched: FloatArray) -> RoundStats:
        """One epoch, as the driver passes it on, in which each site has `fetched` so many bytes."""
        mean = self._shares * self.throughput * EPOCH
        rows = np.rint(np.maximum(rng.normal(mean, np.sqrt(mean)), 0.0)).astype(np.int64)
        speeds = self.speeds * rng.normal(1.0, self.noise, SITES)
        seconds = rows * ROW_SECONDS / speeds[self.directory.home_of]
        busy, state, none = self._of_sites(seconds), self._state_of_groups, np.zeros(len(rows), np.int64)
        length = float((busy + fetched * self.fetch).max())
        loads = replace(
            Loads.none(len(rows)),
            rows=rows, heaviest=np.minimum(rows, rows // self._keys_of_groups + 1), seconds=seconds,
            state_rows=state // ROW_BYTES, state_bytes=state, pending=none, last_used=np.minimum(rows, 1), done=rows,
            output=rows,
        )  # fmt: skip
        share = np.full(SITES, length)
        return RoundStats(self.directory, 1, length, loads, busy, share, np.zeros(SITES), memory=self.memory)

    def fetched_after(self, before: Directory) -> FloatArray:
        """The bytes that each site has to fetch because groups have moved; none where they are read in place."""
        if before is self.directory or not self.fetch:
            return np.zeros(SITES)
        now, was = (_homes_of_keys(directory) for directory in (self.directory, before))
        return np.bincount(now, weights=np.where(now != was, self.state, 0.0), minlength=SITES)

    @cached_property
    def _shares(self) -> FloatArray:
        return self._of_groups(self.weights)

    @cached_property
    def _state_of_groups(self) -> Counts:
        return np.rint(self._of_groups(self.state)).astype(np.int64)

    @cached_property
    def _keys_of_groups(self) -> Counts:
        return np.asarray(1 << (KEY_BITS - self.directory.depths))

    def _of_groups(self, of_keys: FloatArray) -> FloatArray:
        firsts = self.directory.lows >> np.uint64(64 - KEY_BITS)
        return np.asarray(np.add.reduceat(of_keys, firsts.astype(np.int64)))

    def _of_sites(self, of_groups: FloatArray | Counts) -> FloatArray:
        return np.bincount(self.directory.home_of, weights=of_groups, minlength=SITES).astype(np.float64)


def _homes_of_keys(directory: Directory) -> Counts:
    return np.repeat(directory.home_of, 1 << (KEY_BITS - directory.depths))


@dataclass(frozen=True)
class Round:
    """The cluster after a round, what the controller decided at its end, and the rows and seconds since the start."""

    cluster: Cluster
    outcome: RoundOutcome
    rows: int
    seconds: float

    @property
    def moves(self) -> int:
        return sum(isinstance(made.change, Move) for made in self.outcome.accepted)


def rounds(cluster: Cluster, settings: Settings, seed: int = 0) -> Iterator[Round]:
    """Run a cluster for ever under the controller that these settings ask for."""
    rng, before, rows, seconds = np.random.default_rng(seed), cluster.directory, 0, 0.0
    (controller,) = controllers(settings, 1)
    fetching = FetchTimes.assumed() if cluster.fetch else FetchTimes()
    while True:
        fetched, before = cluster.fetched_after(before), cluster.directory
        stats = replace(cluster.epoch(rng, fetched), seconds_per_byte=fetching.seconds_per_byte)
        fetching = fetching.after(float(fetched.sum()) * cluster.fetch, int(fetched.sum()))
        rows, seconds = rows + stats.rows_in, seconds + stats.seconds
        controller = controller.observe(stats) if controller.wants_statistics else controller.skip(stats.seconds)
        if controller.due:
            controller, outcome = controller.decide()
            cluster = replace(cluster, directory=outcome.directory)
            yield Round(cluster, outcome, rows, seconds)


def rate_without(cluster: Cluster, seconds: float, seed: int = 0) -> float:
    """Rows per second if nothing moves for so long."""
    rng, rows, passed = np.random.default_rng(seed), 0, 0.0
    while passed < seconds:
        stats = cluster.epoch(rng, np.zeros(SITES))
        rows, passed = rows + stats.rows_in, passed + stats.seconds
    return rows / passed


def settled(cluster: Cluster, settings: Settings, most: int = 100, calm: int = CALM) -> list[Round]:
    """The rounds until so many came in a row without a change; fails if that is not so after `most` rounds."""
    found: list[Round] = []
    for one in islice(rounds(cluster, settings), most):
        found.append(one)
        if len(found) >= calm and not any(known.outcome.accepted for known in found[-calm:]):
            return found
    raise AssertionError(f"still changing after {most} rounds")


def flux_cluster(slowed: int, group_bytes: int = 800_000, groups_per_site: int = 64) -> Cluster:
    """Equal keys at 32 sites; the first ones are slowed."""
    directory, keys = uniform(SITES, groups_per_site), 1 << KEY_BITS
    speeds = np.where(np.arange(SITES) < slowed, SLOWED, 1.0)
    state = np.full(keys, group_bytes * len(directory.groups) / keys)
    return Cluster(directory, speeds, np.full(keys, 1 / keys), state)


def crowded(cluster: Cluster, sites: int) -> Cluster:
    """Half of the groups of some sites are at as many others, the first ones."""
    old = cluster.directory
    homes = (home - sites if sites <= home < 2 * sites and n % 2 else home for n, home in enumerate(old.homes))
    return replace(cluster, directory=replace(old, homes=tuple(homes)))


def under(policy: str, **more: object) -> Settings:
    return Settings(policy=policy, sites=SITES, **more)  # type: ignore[arg-type]
