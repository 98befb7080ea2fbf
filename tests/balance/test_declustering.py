from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from even_case import World, even_keys, figures_of, world
from hypothesis import given
from hypothesis import strategies as st

from penstock.balance.decisions import Scale
from penstock.balance.policies.diffusion import BUSY, OCCUPANCY, Diffusion, Thresholds, degree, roles
from penstock.balance.stats import RoundStats
from penstock.errors import ConfigError
from penstock.state.directory import uniform


def filled(*occupancy: float, busy: float = 0.5) -> RoundStats:
    """A round in which the buffers of sites were so full."""
    sites = len(occupancy)
    stats = figures_of(uniform(sites, 4), [1000] * len(uniform(sites, 4).groups), capacity=1000)
    return replace(stats, backlog=1000 * np.asarray(occupancy), busy=np.full(sites, busy), seconds=1.0)


def test_sites_have_roles_by_their_load() -> None:
    found = roles(np.asarray([0.6, 0.0, 0.3, 0.9, 0.005]), OCCUPANCY)
    assert found.suppliers == (3, 0)
    assert found.consumers == (1, 4)


def test_all_neutral_or_consumers_is_one_site_too_many() -> None:
    decision = degree(filled(0.2, 0.3, 0.0), OCCUPANCY, 0.5)
    assert decision is not None
    assert decision.change == Scale(2)
    assert decision.gain == pytest.approx(-0.5)  # the work of three is done by two
    assert decision.reason == "no site has much work"


@pytest.mark.parametrize(
    ("occupancy", "beta", "wanted"),
    [
        ((0.6, 0.0, 0.0), 0.5, None),  # one supplier for two consumers is just enough
        ((0.6, 0.0, 0.2), 0.5, Scale(4)),
        ((0.6, 0.0, 0.2), 1.0, None),
        ((0.6, 0.7, 0.8), 0.5, Scale(4)),
        ((0.6, 0.2, 0.2), 0.5, Scale(4)),  # nobody could take what the supplier gives
    ],
)
def test_too_many_suppliers_is_one_site_too_few(
    occupancy: tuple[float, ...], beta: float, wanted: Scale | None
) -> None:
    decision = degree(filled(*occupancy), OCCUPANCY, beta)
    assert (decision.change if decision else None) == wanted


def test_a_site_stays_if_the_others_have_no_time_for_its_work() -> None:
    assert degree(filled(0.0, 0.0, 0.0, busy=0.51), OCCUPANCY, 0.5) is None
    assert degree(filled(0.0, 0.0, 0.0, busy=0.49), OCCUPANCY, 0.5) is not None


def test_there_is_always_a_site() -> None:
    assert degree(filled(0.0, busy=0.0), OCCUPANCY, 0.5) is None


def test_the_cost_is_the_state_that_gets_another_home() -> None:
    few = uniform(2, 1)
    stats = figures_of(few, [1000, 1000], state_bytes=[800, 400], seconds=1.1)
    grown = degree(stats, BUSY, 0.5)
    assert grown is not None
    # Two groups are too few for three sites: of their four halves, one moves.
    assert few.scaled(3).homes.count(2) == 1
    assert grown.cost == {0: 400, 1: 200}[few._halved().homes[few.scaled(3).homes.index(2)]]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0.05, 0.95))
def test_the_number_goes_one_way_and_never_below_half(occupancy: list[float], beta: float) -> None:
    decision = degree(filled(*occupancy), OCCUPANCY, beta)
    suppliers = sum(part > 0.5 for part in occupancy)
    if decision is not None:
        change = decision.change
        assert isinstance(change, Scale)
        assert change.sites > len(occupancy) if suppliers else len(occupancy) // 2 <= change.sites < len(occupancy)


@pytest.mark.parametrize(("most", "wanted"), [(0, 8), (6, 6), (3, 4)])
def test_the_number_grows_to_what_the_work_asks_for_within_bounds(most: int, wanted: int) -> None:
    """Three sites that were busy all the time and have as much again waiting need eight to be busy for three quarters;
    whether there may be one more than there are is for the rules to say."""
    stats = filled(0.9, 0.9, 0.9, busy=1.0)
    full = replace(stats.loads, pending=stats.loads.done)
    decision = degree(replace(stats, loads=full, most_sites=most), OCCUPANCY, 0.5)
    assert decision is not None
    assert decision.change == Scale(wanted)


def test_thresholds_must_be_in_order() -> None:
    with pytest.raises(ConfigError, match="more load than a consumer") as error:
        Thresholds(supplier=0.1, consumer=0.2)
    assert "0.2" in error.value.detail


def elastic_world(load: float, deadline: float = 10.0, capacity: int = 0) -> World:
    """Two sites at first, of up to twelve; `load` is what so many of them could just do."""
    keys = even_keys(int(load * deadline * 1000))
    start = world([1.0] * 2, keys)
    return replace(start, speeds=np.ones(12), deadline=deadline, capacity=capacity)


@pytest.mark.parametrize("capacity", [0, 2000], ids=["by busy time", "by buffer"])
def test_the_number_of_sites_follows_the_load_and_then_rests(capacity: int) -> None:
    wanted = {1: 2, 4: 6, 7: 10, 3: 4}  # of which none is busy for more than three quarters of the time
    policy, now = Diffusion(elastic=True), elastic_world(1.0, capacity=capacity)
    for load in (1, 4, 7, 3, 1):
        now = now.under(even_keys(load * 10_000)).after(policy, 20)
        assert now.directory.sites == wanted[load]
        assert not any(now.after(policy, 5).history[-5:])
