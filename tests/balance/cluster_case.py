"""The cluster of Flux (sections 3, 5.4 and 6.2) in figures: 32 sites, some of them slowed by another process, under the
controller and its rules, epoch by epoch and in no time. The sources are never idle, so the slowest site holds back all
others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

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

    @property
    def throughput(self) -> float:
        """Rows in a second, while nothing moves."""
        work = self._of_sites(self.weights) * ROW_SECONDS / self.speeds
        return float(1 / work.max())

    @property
    def efficiency(self) -> float:
        """The part of what the sites could do if work could be divided at will."""
        return self.throughput * ROW_SECONDS / float(self.speeds.sum())

    @property
    def held(self) -> FloatArray:
        """Bytes of state at each site."""
        return self._of_sites(self.state)

    def epoch(self, rng: np.random.Generator, before: Directory) -> RoundStats:
        """One epoch, as the sites report it, the first one after `before` was the directory."""
        shares = self._of_groups(self.weights)
        rows = rng.poisson(shares * self.throughput * EPOCH)
        homes, speeds = self.directory.home_of, self.speeds * rng.normal(1.0, self.noise, len(self.speeds))
        seconds = rows * ROW_SECONDS / speeds[homes]
        busy = np.bincount(homes, weights=seconds, minlength=len(speeds))
        times = busy + self.fetched_after(before) * self.fetch
        state = self._of_groups(self.state).astype(np.int64)
        nothing = np.zeros(len(rows), np.int64)
        loads = Loads(
            rows=rows, heaviest=np.minimum(rows, rows // self._keys_of_groups() + 1), seconds=seconds,
            state_rows=state // ROW_BYTES, state_bytes=state, pending=nothing, last_used=np.minimum(rows, 1), done=rows,
            output=rows * 1.0,
        )  # fmt: skip
        share = np.full(len(busy), times.max())
        return RoundStats(
            self.directory, 1, float(times.max()), loads, busy, share, np.zeros(len(busy)), memory=self.memory
        )

    def fetched_after(self, before: Directory) -> FloatArray:
        """The bytes that each site has to fetch because groups have moved."""
        if before is self.directory:
            return np.zeros(len(self.speeds))
        now, was = (_homes_of_keys(directory) for directory in (self.directory, before))
        return np.bincount(now, weights=np.where(now != was, self.state, 0.0), minlength=len(self.speeds))

    def _keys_of_groups(self) -> Counts:
        return np.asarray(1 << (KEY_BITS - self.directory.depths))

    def _of_groups(self, of_keys: FloatArray) -> FloatArray:
        firsts = self.directory.lows >> np.uint64(64 - KEY_BITS)
        return np.asarray(np.add.reduceat(of_keys, firsts.astype(np.int64)))

    def _of_sites(self, of_keys: FloatArray) -> FloatArray:
        return np.bincount(
            self.directory.home_of, weights=self._of_groups(of_keys), minlength=len(self.speeds)
        ).astype(np.float64)


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
        stats = replace(cluster.epoch(rng, before), seconds_per_byte=fetching.seconds_per_byte)
        fetched = float(cluster.fetched_after(before).sum())
        fetching = fetching.after(fetched * cluster.fetch, int(fetched) if cluster.fetch else 0)
        rows, seconds, before = rows + stats.rows_in, seconds + stats.seconds, cluster.directory
        controller = controller.observe(stats) if controller.wants_statistics else controller.skip(stats.seconds)
        if controller.due:
            controller, outcome = controller.decide()
            cluster = replace(cluster, directory=outcome.directory)
            yield Round(cluster, outcome, rows, seconds)


def flux_cluster(slowed: int, group_bytes: int = 800_000, groups_per_site: int = 64) -> Cluster:
    """Equal keys at 32 sites; the first ones are slowed."""
    directory, keys = uniform(SITES, groups_per_site), 1 << KEY_BITS
    speeds = np.where(np.arange(SITES) < slowed, SLOWED, 1.0)
    state = np.full(keys, group_bytes * len(directory.groups) / keys)
    return Cluster(directory, speeds, np.full(keys, 1 / keys), state)


def settings_for(policy: str, **more: object) -> Settings:
    return Settings(policy=policy, sites=SITES, **more)  # type: ignore[arg-type]
