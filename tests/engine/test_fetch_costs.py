"""What moves cost on a deployment, from the reports of sites."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from penstock.balance.stats import Loads, RoundStats
from penstock.clock import TaskTime
from penstock.engine.driver.fetch_costs import FetchCosts
from penstock.engine.wire.job import SiteReport
from penstock.settings import Settings
from penstock.state.directory import uniform
from penstock.state.model import SiteState

SITE = SiteReport("s", "x", 0, 0, {}, SiteState((), ()), (), 100, 100, 0, 1, False, 0, TaskTime("w", 0.0, 2.0, {}))
MB = 1_000_000


def site(number: int, waited: float = 0.0, fetched: int = 0, subquery: int = 0) -> SiteReport:
    time = TaskTime("w", 0.0, 2.0, {"work": 2.0 - waited, "fetch": waited})
    return replace(SITE, subquery=subquery, site=number, time=time, fetched=fetched)


def stats(busy: list[float]) -> RoundStats:
    loads = Loads.none(4)
    sites = np.asarray(busy)
    return RoundStats(uniform(2, 2), 1, 2.0, loads, sites, np.full(2, sites.max()), np.zeros(2))


@pytest.mark.parametrize(
    "settings",
    [
        Settings(master="spark://host:7077"),
        Settings(master="local[4]", cache="/cache"),
        Settings(master="local", cache="executor"),
        Settings(master="inline", cache="/cache"),
    ],
)
def test_where_there_is_nothing_to_fetch_a_move_costs_nothing_by_the_byte(settings: Settings) -> None:
    costs = FetchCosts(settings)
    assert costs.seconds_per_byte == 0.0
    costs.observe([site(0, 1.0, 100 * MB)])  # the first copies of a cache that was empty
    assert costs.seconds_per_byte == 0.0


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "local-cluster[2,1,1024]"])
def test_what_is_assumed_at_first_gives_way_to_what_is_measured(master: str) -> None:
    costs = FetchCosts(Settings(master=master, cache="executor"))
    assert costs.seconds_per_byte == pytest.approx(1 / (100 * MB))
    for _ in range(60):
        costs.observe([site(0, 1.0, 10 * MB), site(1, 0.0, 10 * MB), site(2)])
    assert costs.seconds_per_byte == pytest.approx(1 / (20 * MB), rel=0.02)
    costs.observe([site(0), site(1)])
    assert costs.seconds_per_byte == pytest.approx(1 / (20 * MB), rel=0.02)


def test_a_site_that_waits_for_state_is_not_busy() -> None:
    reports = [site(1, waited=1.5), site(0), site(0, waited=1.0, subquery=1)]
    noted = FetchCosts(Settings(master="yarn", cache="executor")).noted(stats([2.0, 2.0]), 0, reports)
    assert noted.busy.tolist() == [2.0, 0.5]
    assert noted.share.tolist() == [2.0, 2.0]
    assert noted.seconds_per_byte == pytest.approx(1 / (100 * MB))
