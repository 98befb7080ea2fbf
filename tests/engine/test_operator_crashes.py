"""Every operator dies anywhere, several times in a row, goes on in another way each time, and is exact.

The queries are over two sources with late and malformed rows; `test_crash` does the same with aggregates only.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from penstock.storage.faults import FaultPoint
from penstock.testing.ways import Way
from tests.support.amounts import some_of
from tests.support.crashes import (
    Fault,
    Place,
    Scenario,
    another_way,
    assert_exact,
    assert_homes,
    die_again_and_again,
    finish,
    launch,
    newest_manifest,
    operator_scenario,
    run_until_death,
)
from tests.support.queries.data import SECOND
from tests.support.queries.operators import operator_queries

QUERIES = operator_queries(SECOND)
PROBING = [name for name in QUERIES if ("join" in name and "rows" not in name) or name == "distinct"]
HELD_BACK = [name for name in QUERIES if name not in ("windows of rows", "top of all", "in order")]
AT_A_SITE = [FaultPoint.SITE_MERGED, FaultPoint.SITE_WORKED, FaultPoint.RUN_TORN, FaultPoint.SITE_DONE]


@pytest.mark.parametrize("order", some_of(["any", "any again", "in"]))
@pytest.mark.parametrize("name", QUERIES)
def test_deaths_in_a_row(name: str, order: str, random: Random, place: Place, way: Way) -> None:
    scenario = operator_scenario(random, QUERIES[name], order=order.split()[0])
    way, story = die_again_and_again(scenario, place, way, random, random.choice([1, 2, 4]))
    finish(scenario, place, way)
    assert_exact(scenario, place, story)


@pytest.mark.parametrize(("name", "order"), [*((n, "any") for n in PROBING), *((n, "in") for n in HELD_BACK)])
def test_rescaling_and_death_while_rows_wait(name: str, order: str, random: Random, tmp_path: Path) -> None:
    """Rows that are pending, or that a merger holds back, change hands like state does."""
    slow = Way(sites=2, items=1, item_rows=1)
    scenario, place = _until_rows_wait(name, order, slow, random, tmp_path)
    for sites in (5, 1, 3):
        run_until_death(scenario, place, replace(slow, sites=sites), Fault(random.choice(AT_A_SITE), 2 * sites))
        _waiting(place)
    finish(scenario, place, replace(slow, sites=2))
    assert not _waiting(place)
    assert_exact(scenario, place, f"{name}, {order}\n{scenario.stream.explain()}")


def _until_rows_wait(name: str, order: str, way: Way, random: Random, folder: Path) -> tuple[Scenario, Place]:
    """A run that was stopped while rows wait; rows of one key never do."""
    for number in range(20):
        # One cell of a theta join is like one key, so each site has several.
        scenario = operator_scenario(random, QUERIES[name], order=order, grid="4x4")
        place = Place(folder / str(number))
        while launch(scenario, place, way, until="1 epochs").wait().progress.state != "finished":
            if _waiting(place):
                return scenario, place
    raise AssertionError("rows never wait")


def _waiting(place: Place) -> int:
    """How many slices wait; all of them, and all others, are at home."""
    manifest = newest_manifest(place.checkpoint)
    for state in manifest.subqueries:
        assert_homes(state, place.checkpoint / "runs")
    return sum(len(site.pending) + len(site.held) for state in manifest.subqueries for site in state.sites)


@pytest.mark.parametrize("name", ["full join", "theta join over rows", "moments over a join", "sessions"])
def test_a_restart_on_other_sites_before_every_epoch(name: str, random: Random, place: Place, way: Way) -> None:
    scenario, restarts = operator_scenario(random, QUERIES[name]), 0
    while launch(scenario, place, way, until="1 epochs").wait().progress.state != "finished":
        way, restarts = another_way(random, way), restarts + 1
    assert restarts >= len(scenario.batches) - 1
    assert_exact(scenario, place, name)
