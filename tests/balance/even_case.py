"""A subquery that is nothing but figures: keys with rates, sites with speeds, and a directory that a policy changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from penstock.balance.decisions import Decision
from penstock.balance.policy import Learning, Policy
from penstock.balance.stats import FloatArray, Loads, RoundStats
from penstock.state.directory import Directory, Group, uniform

KEY_BITS = 14  # every key is a prefix of the hash of this length


def figures_of(
    directory: Directory,
    rows: Sequence[int] | npt.NDArray[np.int64],
    *,
    speeds: Sequence[float] | None = None,
    heaviest: Sequence[int] | None = None,
    state_rows: Sequence[int] | None = None,
    state_bytes: Sequence[int] | None = None,
    pending: Sequence[int] | None = None,
    seconds: float = 10.0,
    capacity: int = 0,
    memory: int = 0,
    bytes_per_second: float = 0.0,
) -> RoundStats:
    """A round of one epoch. Sites of speed 1 work through a thousand rows in a second. State that moves is fetched with
    `bytes_per_second` (0: it is read in place)."""
    counts, homes = np.asarray(rows, np.int64), np.asarray(directory.homes)
    speed = np.asarray(speeds if speeds is not None else np.ones(directory.sites), np.float64)
    worked = counts / (1000 * speed[homes])
    busy = np.bincount(homes, weights=worked, minlength=directory.sites)
    waiting = _counts(pending, len(counts))
    loads = replace(
        Loads.none(len(counts)),
        rows=counts,
        heaviest=counts // 100 if heaviest is None else np.asarray(heaviest, np.int64),
        seconds=worked,
        state_rows=_counts(state_rows, len(counts)),
        state_bytes=_counts(state_bytes, len(counts)),
        pending=waiting,
        last_used=np.where(counts > 0, 1, 0),
        done=counts,
        output=counts,
    )
    backlog = np.bincount(homes, weights=waiting, minlength=directory.sites)
    share = np.full(directory.sites, busy.max())
    stats = RoundStats(directory, 10, seconds, loads, busy, share, backlog, capacity, memory)
    return replace(stats, seconds_per_byte=1 / bytes_per_second) if bytes_per_second else stats


def _counts(given: Sequence[int] | None, length: int) -> npt.NDArray[np.int64]:
    return np.zeros(length, np.int64) if given is None else np.asarray(given, np.int64)


@dataclass(frozen=True, eq=False)
class World:
    """`keys` has the rows that a round brings for each of the keys, in order of hash, and `pending` what earlier ones
    left. A site has `deadline` seconds for a round, and may have `capacity` rows pending; 0 stands for no bound."""

    directory: Directory
    keys: FloatArray
    speeds: FloatArray
    pending: FloatArray = field(default_factory=lambda: np.zeros(1 << KEY_BITS))
    deadline: float = 0.0
    capacity: int = 0
    history: tuple[Sequence[Decision], ...] = ()

    def stats(self) -> RoundStats:
        rows, heaviest = self._of_groups(self.keys), self._of_groups(self.keys, np.maximum)
        stats = figures_of(
            self.directory, rows, speeds=list(self.speeds), heaviest=list(heaviest),
            state_rows=list(rows), state_bytes=list(rows * 64),
        )  # fmt: skip
        return self._until_the_deadline(stats) if self.deadline else stats

    def _until_the_deadline(self, stats: RoundStats) -> RoundStats:
        """In ten epochs, over which backlogs grow or shrink evenly."""
        before, after = (stats.of_sites(self._of_groups(keys)) for keys in (self.pending, self.left()))
        growth = (after - before) / 10
        worked = self._of_groups(self.keys + self.pending - self.left())
        seconds = worked / (1000 * self.speeds[stats.homes])
        loads = replace(stats.loads, seconds=seconds, pending=self._of_groups(self.left()), done=worked)
        return replace(
            stats, loads=loads, busy=stats.of_sites(seconds), epochs=10, backlog=before + growth * 5.5,
            share=np.full(len(before), self.deadline), seconds=self.deadline, capacity=self.capacity,
        )  # fmt: skip

    def left(self) -> FloatArray:
        """The rows of each key that the next round leaves pending. What a buffer has no room for is not admitted."""
        waiting, homes = self.keys + self.pending, self._homes()
        of_sites = np.bincount(homes, weights=waiting, minlength=self.directory.sites)
        rest = np.maximum(of_sites - self.deadline * 1000 * self.speeds[: self.directory.sites], 0)
        rest = np.minimum(rest, self.capacity) if self.capacity else rest
        return waiting * (rest / np.maximum(of_sites, 1))[homes]

    def _homes(self) -> npt.NDArray[np.int64]:
        """The site of each key."""
        widths = [1 << (KEY_BITS - group.depth) for group in self.directory.groups]
        return np.repeat(np.asarray(self.directory.homes), widths)

    def _of_groups(self, keys: FloatArray, how: np.ufunc = np.add) -> npt.NDArray[np.int64]:
        borders = [group.prefix << (KEY_BITS - group.depth) for group in self.directory.groups]
        return how.reduceat(keys, borders).astype(np.int64)

    def evenness(self) -> float:
        """The ideal time of the slowest site as a part of the one it takes: 1 is best."""
        rows = np.bincount(self._homes(), weights=self.keys, minlength=self.directory.sites)
        return float(self.keys.sum() / self.speeds.sum() / (rows / self.speeds).max())

    def after(self, policy: Policy, rounds: int = 1) -> World:
        world = self
        for _ in range(rounds):
            stats = world.stats()
            made = policy.decide(stats)
            policy = policy.after(stats) if isinstance(policy, Learning) else policy
            pending = world.left() if world.deadline else world.pending
            history = (*world.history, made)
            world = replace(world, directory=changed(world.directory, made), pending=pending, history=history)
        return world

    def under(self, keys: FloatArray) -> World:
        return replace(self, keys=keys)


def changed(directory: Directory, made: Sequence[Decision]) -> Directory:
    for decision in made:
        directory = decision.change.applied(directory)
    return directory


def world(speeds: Sequence[float], keys: FloatArray, groups_per_site: int = 16) -> World:
    return World(uniform(len(speeds), groups_per_site), keys, np.asarray(speeds, np.float64))


def even_keys(rows: int = 160_000) -> FloatArray:
    return np.full(1 << KEY_BITS, rows / (1 << KEY_BITS))


def zipf_groups(power: float, seed: int, depth: int = 7, rows: int = 160_000) -> FloatArray:
    """Ranges of keys whose rows follow Zipf's law, in random order; all keys of a range are alike."""
    ranks = np.random.default_rng(seed).permutation(1 << depth) + 1
    weights = np.repeat(1.0 / ranks**power, 1 << (KEY_BITS - depth))
    return rows * weights / weights.sum()


def hot_range(first: float, part: float, of_rows: float, rows: int = 160_000) -> FloatArray:
    """`of_rows` of the rows have keys in `part` of the hash space, which begins at `first`."""
    places = (np.arange(1 << KEY_BITS) / (1 << KEY_BITS) - first) % 1
    hot = places < part
    return rows * np.where(hot, of_rows / hot.sum(), (1 - of_rows) / (~hot).sum())


def hot_keys(count: int, of_rows: float, seed: int, rows: int = 160_000) -> FloatArray:
    """`of_rows` of the rows have one of so many keys, which lie anywhere."""
    keys = even_keys(int(rows * (1 - of_rows)))
    keys[np.random.default_rng(seed).choice(len(keys), count, replace=False)] += rows * of_rows / count
    return keys


def groups_named(*bits: str) -> tuple[Group, ...]:
    return tuple(Group(int(name, 2), len(name)) for name in bits)
