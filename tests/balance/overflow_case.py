"""A join whose state exceeds the memory of its sites, in figures, under the controller and its rules: keys get rows,
and a row finds partners in the active state of its key only. What a parked key misses is owed until it is cleaned up,
which takes time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from penstock.balance.controller import Controller, RoundOutcome
from penstock.balance.decisions import Change, CleanUp, Decision, Park
from penstock.balance.policies import policy_named
from penstock.balance.policy import Policy
from penstock.balance.rules import Rules
from penstock.balance.stats import BoolArray, FloatArray, IntArray, Loads, RoundStats
from penstock.state.directory import Directory, Group, uniform

KEY_BITS = 10  # every key is a prefix of the hash of this length
KEYS = 1 << KEY_BITS
ROW_BYTES = 100
ROW_SECONDS = 1e-4
EPOCH, ROUND = 0.5, 5.0  # seconds; sites keep up with their input
RESULTS = 100.0  # of a row per megabyte of active state, at a ratio of 1
CLEANED_BYTES = 1_000_000  # that a site cleans up in an epoch
RULES = Rules(budget=10**12)
MB = 1_000_000


@dataclass(frozen=True, eq=False)
class Join:
    """Invariant: an entry per key in all arrays, in order of hash. `rates` are rows in an epoch, `ratios` the results
    of a row per megabyte of active state, `expiry` the part of active state that expires in an epoch. `active` and
    `parked` are bytes, `owed` the results that parked state has missed, `left` the bytes still to be cleaned up. The
    load alternates between the first and the second half of the keys every `swing` epochs (0: it does not)."""

    directory: Directory
    rates: FloatArray
    ratios: FloatArray
    memory: int
    may_park: bool = True
    expiry: float = 0.0
    swing: int = 0
    active: FloatArray = field(default_factory=lambda: np.zeros(KEYS))
    parked: FloatArray = field(default_factory=lambda: np.zeros(KEYS))
    owed: FloatArray = field(default_factory=lambda: np.zeros(KEYS))
    left: FloatArray = field(default_factory=lambda: np.zeros(KEYS))
    last_used: FloatArray = field(default_factory=lambda: np.zeros(KEYS))
    number: int = 0
    produced: float = 0.0

    @property
    def held(self) -> FloatArray:
        """Bytes of active state at each site."""
        return self._of_sites(self.active)

    @property
    def homes(self) -> IntArray:
        """The site of each key."""
        return np.repeat(self.directory.home_of, 1 << (KEY_BITS - self.directory.depths))

    def epoch(self, rng: np.random.Generator) -> tuple[Join, RoundStats]:
        """The join after one more epoch, and the statistics of the epoch."""
        rows = rng.poisson(self._rates_now())
        output, missed = (rows * self.ratios * state / MB for state in (self.active, self.parked))
        cleaned, done = self._cleaned()
        later = replace(
            self,
            active=self.active * (1 - self.expiry) + rows * ROW_BYTES + np.where(done, self.parked, 0.0),
            parked=np.where(done, 0.0, self.parked),
            owed=np.where(done, 0.0, self.owed + missed),
            left=self.left - cleaned,
            last_used=np.where(rows > 0, self.number + 1, self.last_used),
            number=self.number + 1,
            produced=self.produced + float(output.sum() + self.owed[done].sum()),
        )
        return later, later._stats(rows, output)

    def _rates_now(self) -> FloatArray:
        if not self.swing:
            return self.rates
        first = np.arange(KEYS) < KEYS // 2
        return np.where(first == (self.number // self.swing % 2 == 0), 10 / 11, 1 / 11) * 2 * self.rates

    def _cleaned(self) -> tuple[FloatArray, BoolArray]:
        """The bytes of each key that an epoch cleans up, site by site, and the keys that are done with it."""
        cleaned, homes = np.zeros(KEYS), self.homes
        for site in range(self.directory.sites):
            mine = np.flatnonzero((homes == site) & (self.left > 0))
            before = np.cumsum(self.left[mine]) - self.left[mine]
            cleaned[mine] = np.clip(CLEANED_BYTES - before, 0.0, self.left[mine])
        return cleaned, (self.left > 0) & (cleaned >= self.left)

    def _stats(self, rows: IntArray, output: FloatArray) -> RoundStats:
        seconds, sites = rows * ROW_SECONDS, self.directory.sites
        known = self._of_groups(rows)
        loads = replace(
            Loads.none(len(known)),
            rows=known, done=known, seconds=known * ROW_SECONDS, heaviest=self._of_groups(rows, np.maximum),
            output=self._of_groups(output), state_rows=self._of_groups(self.active / ROW_BYTES),
            state_bytes=self._of_groups(self.active), parked_bytes=self._of_groups(self.parked),
            last_used=self._of_groups(self.last_used, np.maximum),
        )  # fmt: skip
        return RoundStats(
            self.directory, 1, EPOCH, loads, self._of_sites(seconds), np.full(sites, EPOCH), np.zeros(sites),
            memory=self.memory, may_park=self.may_park,
        )  # fmt: skip

    def _of_groups(self, of_keys: FloatArray | IntArray, how: np.ufunc = np.add) -> IntArray:
        firsts = self.directory.lows >> np.uint64(64 - KEY_BITS)
        return np.rint(how.reduceat(of_keys, firsts.astype(np.int64))).astype(np.int64)

    def _of_sites(self, of_keys: FloatArray) -> FloatArray:
        return np.bincount(self.homes, weights=of_keys, minlength=self.directory.sites).astype(np.float64)

    def after(self, outcome: RoundOutcome) -> Join:
        """The join with what the controller decided."""
        active, parked, left = self.active.copy(), self.parked.copy(), self.left.copy()
        for made in outcome.accepted:
            match made.change:
                case Park(group):
                    parked[_keys(group)] += active[_keys(group)]
                    active[_keys(group)] = left[_keys(group)] = 0.0
                case CleanUp(group):
                    going_on = left[_keys(group)] > 0
                    left[_keys(group)] = np.where(going_on, left[_keys(group)], parked[_keys(group)])
        return replace(self, directory=outcome.directory, active=active, parked=parked, left=left)


def _keys(group: Group) -> slice:
    width = 1 << (KEY_BITS - group.depth)
    return slice(group.prefix * width, (group.prefix + 1) * width)


@dataclass(frozen=True)
class History:
    """The join at the end, and what was decided after each round, at whose end the sites held so many bytes."""

    end: Join
    outcomes: tuple[RoundOutcome, ...]
    held: tuple[FloatArray, ...] = field(repr=False)

    def decided(self, kind: type[Change]) -> list[tuple[int, Decision]]:
        """The decisions of a kind, each with the number of its round."""
        rounds = enumerate(self.outcomes)
        return [(number, made) for number, one in rounds for made in one.accepted if isinstance(made.change, kind)]

    def parked_bytes(self) -> int:
        return sum(made.cost for _, made in self.decided(Park))

    def refused(self) -> list[str]:
        return [refusal.rule for outcome in self.outcomes for refusal in outcome.refused]


def run(join: Join, policy: Policy | str, epochs: int, rules: Rules = RULES, seed: int = 0) -> History:
    """Run a join for so many epochs."""
    rng = np.random.default_rng(seed)
    outcomes: list[RoundOutcome] = []
    held: list[FloatArray] = []
    controller = Controller(policy_named(policy) if isinstance(policy, str) else policy, rules, ROUND)
    for _ in range(epochs):
        join, stats = join.epoch(rng)
        controller = controller.observe(stats) if controller.wants_statistics else controller.skip(stats.seconds)
        if controller.due:
            held.append(join.held)
            controller, outcome = controller.decide()
            join = join.after(outcome)
            outcomes.append(outcome)
    return History(join, tuple(outcomes), tuple(held))


def join_of(
    sites: int, memory: int, ratios: Sequence[float] = (1.0,), growth: float = 0.003, expiry: float = 0.0,
    groups: int = 16, may_park: bool = True,
) -> Join:  # fmt: skip
    """A join whose groups have these ratios of results, by turns. Its state grows in each epoch by the part `growth` of
    the memory of all sites."""
    directory = uniform(sites, groups)
    count = len(directory.groups)
    rates = np.full(KEYS, growth * sites * memory / ROW_BYTES / KEYS)
    of_keys: npt.NDArray[np.float64] = np.repeat(np.resize(ratios, count), KEYS // count).astype(np.float64)
    return Join(directory, rates, RESULTS * of_keys, memory, may_park, expiry)


def at_sites(join: Join, homes: Sequence[int]) -> Join:
    """The join with its groups at these sites, by turns."""
    return replace(
        join, directory=replace(join.directory, homes=tuple(np.resize(homes, len(join.directory.homes)).tolist()))
    )
