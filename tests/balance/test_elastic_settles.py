"""`elastic` under a constant load: through the controller and its rules, in virtual time, it settles and stays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

import numpy as np
import numpy.typing as npt
import pytest

from penstock.balance.controller import Controller, controllers
from penstock.balance.decisions import Scale
from penstock.balance.stats import Loads, RoundStats
from penstock.settings import Settings
from penstock.state.directory import Directory, uniform
from tests.support.amounts import some_of

KEY_BITS = 9
KEYS = 1 << KEY_BITS
DECISIONS, STAYS = 3, 100  # changes of the number of sites, and the epochs behind the last of them
Figures = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Load:
    """A load that does not change. It is what `sites` sites could just do; a row takes `cost` seconds, and `dearer`
    times as long while a site has a backlog; an epoch takes `overhead` seconds of every site. Where there are more
    sites than `cores`, all are slower, or they work by `turns`, as in one process. Some keys have more rows than
    others, by `skew`. A site has a buffer of so many seconds' rows (`buffer`, 0: none), and what it has no room for
    waits at the source."""

    sites: float
    cost: float
    cores: int
    turns: bool
    dearer: float
    overhead: float
    skew: float
    buffer: float
    epochs_per_round: int
    first_sites: int
    most_sites: int
    least_sites: int = 1

    @property
    def rows(self) -> float:
        """In an epoch, which is a second."""
        return self.sites / self.cost


def random_load(random: Random) -> Load:
    most = random.choice([2, 3, 4, 8, 12, 16])
    return Load(
        sites=random.choice([0.02, 1.0, random.uniform(0.1, 3.0), random.uniform(0.1, 1.5 * most)]),
        cost=10 ** random.uniform(-5, -3.5),
        cores=random.choice([1, 2, 4, 64]),
        turns=random.random() < 0.5,
        dearer=random.choice([1.0, 1.0, 1.1, 1.3]),
        overhead=random.choice([0.0, 0.0, 0.01, 0.05]),
        skew=random.choice([0.0, 0.0, 0.3]),
        buffer=random.choice([0.0, 1.0, 2.0, 4.0]),
        epochs_per_round=random.choice([1, 2, 5, 10]),
        first_sites=random.randint(1, most),
        most_sites=most,
    )


class Subquery:
    """Sites that work through a load, epoch by epoch."""

    def __init__(self, load: Load, random: Random) -> None:
        self.load = load
        weights = np.asarray([random.uniform(1 - load.skew, 1 + load.skew) for _ in range(KEYS)])
        self.arriving: Figures = load.rows * weights / weights.sum()
        self.at_source = self.pending = np.zeros(KEYS)

    def epoch(self, directory: Directory) -> RoundStats:
        load, homes = self.load, _homes(directory)
        sites, borders = directory.sites, [g.prefix << (KEY_BITS - g.depth) for g in directory.groups]
        came = self._admitted(homes, sites)
        waiting = self.pending + came
        of_sites = np.bincount(homes, weights=waiting, minlength=sites)
        backlog = np.bincount(homes, weights=self.pending, minlength=sites)
        crowd = max(1.0, sites / load.cores)
        cost = load.cost * (1.0 if load.turns else crowd) * np.where(backlog > 1, load.dearer, 1.0)
        time = max(0.05, (1.0 / crowd if load.turns else 1.0) - load.overhead)
        done = waiting * np.minimum(1.0, time / np.maximum(of_sites * cost, 1e-12))[homes]
        self.pending = waiting - done
        worked = done * cost[homes]
        busy = np.bincount(homes, weights=worked, minlength=sites) + load.overhead

        def groups(of_keys: Figures) -> Figures:
            return np.add.reduceat(of_keys, borders)

        def counts(of_keys: Figures) -> npt.NDArray[np.int64]:
            return np.asarray(groups(of_keys).round(), np.int64)

        return RoundStats(
            directory, 1, 1.0,
            replace(
                Loads.none(len(borders)), rows=counts(came), heaviest=counts(came) // 50, seconds=groups(worked), 
                state_rows=counts(came), state_bytes=counts(came) * 64, pending=counts(self.pending),
                last_used=np.minimum(counts(came), 1), done=counts(done), output=counts(done),
            ),
            np.minimum(busy, 1.0), np.ones(sites), np.bincount(homes, weights=self.pending, minlength=sites),
            capacity=self._capacity(),
        )  # fmt: skip

    def _capacity(self) -> int:
        return max(1, int(self.load.buffer / self.load.cost)) if self.load.buffer else 0

    def _admitted(self, homes: npt.NDArray[np.int64], sites: int) -> Figures:
        """What comes in, with what the source has kept back: no more than the fullest buffer has room for."""
        offered = self.arriving + np.minimum(self.at_source, self.arriving)
        part = 1.0
        if capacity := self._capacity():
            of_sites = np.bincount(homes, weights=offered, minlength=sites)
            room = capacity - np.bincount(homes, weights=self.pending, minlength=sites)
            part = float(np.clip(room / np.maximum(of_sites, 1e-12), 0.0, 1.0).min())
        self.at_source = self.at_source + self.arriving - offered * part
        return offered * part


def _homes(directory: Directory) -> npt.NDArray[np.int64]:
    return np.repeat(np.asarray(directory.homes), [1 << (KEY_BITS - g.depth) for g in directory.groups])


def scalings(load: Load, random: Random) -> list[int]:
    """The numbers of sites that the controller carried out, until it has stayed with one for long."""
    settings = Settings(
        policy="elastic", sites=load.first_sites, most_sites=load.most_sites,
        least_sites=load.least_sites, round_seconds=float(load.epochs_per_round),
    )  # fmt: skip
    controller: Controller = controllers(settings, 1)[0]
    directory, subquery, found, last = uniform(load.first_sites, 16), Subquery(load, random), list[int](), 0
    for epoch in range(2_000):
        stats = subquery.epoch(directory)
        controller = controller.observe(stats) if controller.wants_statistics else controller.skip(stats.seconds)
        if controller.due:
            controller, outcome = controller.decide()
            directory = outcome.directory
            if made := [d.change.sites for d in outcome.accepted if isinstance(d.change, Scale)]:
                found, last = found + made, epoch
        if epoch - last > STAYS + 10 * load.epochs_per_round:
            return found
    pytest.fail(f"{load}: never stays: {found}")


@pytest.mark.parametrize("block", some_of(range(4)))
def test_under_a_constant_load_the_number_of_sites_settles_and_stays(block: int) -> None:
    for number in range(25):
        random = Random(50_000 + 25 * block + number)
        load = random_load(random)
        found = scalings(load, random)
        assert len(found) <= DECISIONS, f"{load}: {found}"


def test_a_number_of_sites_that_was_too_few_is_not_gone_back_to_before_the_load_falls() -> None:
    """Two sites are just too few; three would be busy for little more than two thirds of the time."""
    load = Load(2.05, 1e-4, 64, False, 1.3, 0.0, 0.0, 2.0, 2, 2, 4)
    assert scalings(load, Random(1))[-1] in (3, 4)
    assert scalings(replace(load, sites=0.5), Random(1))[-1] == 1


def test_it_goes_down_to_the_least_number_of_sites_and_not_below() -> None:
    load = Load(0.02, 1e-4, 64, False, 1.0, 0.0, 0.0, 0.0, 2, 8, 8, least_sites=5)
    assert scalings(load, Random(1)) == [5]
