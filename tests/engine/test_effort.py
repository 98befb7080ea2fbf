"""How long tasks held an epoch, and how long it would have been with sites that are all as fast as the fastest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.clock import TaskTime
from penstock.engine.driver.effort import fastest_seconds, held_seconds, largest_backlog, whole_backlog
from penstock.engine.wire.job import RouteReport, SiteReport
from penstock.state.model import SiteState

ROUTE = RouteReport("split-0", "x", 0, None, 10, 0, 0, 0, 0, (), TaskTime("w", 0.0, 1.0, {}))
SITE = SiteReport("s", "x", 0, 0, {}, SiteState((), ()), (), 100, 100, 0, 1, False, 0, TaskTime("w", 0.0, 2.0, {}))


def site(seconds: float, done: int, subquery: int = 0, backlog: int = 0) -> SiteReport:
    return replace(SITE, subquery=subquery, time=replace(SITE.time, seconds=seconds), rows_done=done, backlog=backlog)


def test_an_epoch_is_held_by_the_slowest_site_of_each_level() -> None:
    reports = [ROUTE, ROUTE, ROUTE, site(2.0, 100), site(4.0, 100), site(0.5, 100, subquery=1)]
    assert held_seconds(reports) == pytest.approx(3 / 2 + 4.0 + 0.5)


def test_a_site_that_did_half_of_what_came_in_the_same_time_is_not_the_fastest() -> None:
    # 100 rows came to each on average; the fastest does one in 20 ms.
    assert fastest_seconds([site(2.0, 100), site(2.0, 50, backlog=50)]) == pytest.approx(2.0)


def test_a_site_that_also_did_what_was_pending_is_fast() -> None:
    assert fastest_seconds([site(2.0, 200), site(2.0, 100)]) == pytest.approx(1.0)


def test_sites_that_had_nothing_to_do_say_nothing_about_speed() -> None:
    assert fastest_seconds([site(2.0, 0), site(3.0, 100)]) == pytest.approx(3.0)
    assert fastest_seconds([site(2.0, 0), site(3.0, 0)]) == pytest.approx(3.0)
    assert held_seconds([]) == fastest_seconds([]) == 0.0


def test_the_fullest_buffer_and_all_of_them() -> None:
    reports = [ROUTE, site(1.0, 1, backlog=7), site(1.0, 1, subquery=1, backlog=9)]
    assert (largest_backlog(reports), whole_backlog(reports)) == (9, 16)
    assert largest_backlog([]) == 0
