"""A key that gets too hot is found by the policy, by what sites tell of it, and told to who watches."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.api.streams import Stream
from penstock.balance.decisions import Spread
from penstock.balance.estimate import Demand
from penstock.balance.policies import even
from penstock.balance.stats import RoundStats
from penstock.engine.driver.executor import InlineExecutor
from penstock.engine.driver.loop import Outcome
from penstock.engine.driver.showing import subquery_status
from penstock.events import DirectoryChanged, EpochCommitted
from penstock.testing.ways import Way
from tests.support.crashes import Place, Scenario, assert_exact
from tests.support.looping import looping
from tests.support.queries.data import SECOND
from tests.support.skew import HOT, hash_of

HASH = hash_of(HOT, 64)


def test_the_policy_spreads_a_key_that_is_too_hot_and_gathers_it_when_it_is_cold(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what sites tell of rows; how long they take is left to chance, so it does not count here."""
    monkeypatch.setattr(even, "demand", work_by_rows)
    scenario, way = Scenario(one_hot_key()), Way(sites=4, rows_per_epoch=800)
    with looping(scenario, place, way, InlineExecutor(), policy="even", round_seconds=0.0) as (loop, told):
        seen = set()
        while loop.step() is not Outcome.FINISHED:
            seen |= {cells.hash for cells in loop.manifest.subqueries[0].directory.spread}
        changes = [event.what for event in told if isinstance(event, DirectoryChanged)]
        assert f"gather {HASH:016x}" in changes, changes
        assert seen == {HASH}
        assert loop.manifest.subqueries[0].directory.spread == ()
    assert_exact(scenario, place)


def test_what_is_shown_of_sites_counts_the_rows_of_cells(place: Place) -> None:
    scenario, way = Scenario(one_hot_key()), Way(sites=4, rows_per_epoch=800)
    with looping(scenario, place, way, InlineExecutor()) as (loop, told):
        loop.change(0, Spread(HASH, 0, (0, 1, 2, 3)))
        for _ in range(3):
            loop.watched = True
            loop.step()
        came = [event.rows_in for event in told if isinstance(event, EpochCommitted)][-1]
        shown = subquery_status(loop.query.program.subqueries[0], loop.stats[0])
        assert shown.spread_keys == 1
        assert sum(site.rows_per_second for site in shown.sites) * loop.stats[0].seconds >= came
        assert min(site.rows_per_second for site in shown.sites) * loop.stats[0].seconds > came / 8


def work_by_rows(stats: RoundStats) -> Demand:
    work, cells = stats.loads.rows.astype(np.float64), (stats.cells.cut + stats.cells.copied).astype(np.float64)
    return Demand(work, np.zeros(len(work)), np.ones(len(stats.busy)), cells)


def one_hot_key(rows: int = 8_000, batches: int = 20) -> Stream:
    """In the first half of the left rows nine of ten have one key, in the second none; the right ones are even."""
    numbers = np.arange(rows)
    hot = (numbers < rows // 2) & (numbers % 10 > 0)
    sides = [np.where(hot, HOT, 1000 + numbers % 997), 1000 + numbers % 997]
    sides[1][::100] = HOT
    times = pa.array(numbers * (60 * SECOND // rows), pa.timestamp("us"))
    left, right = (
        ps.read.batches(
            [pa.table({"ts": times, "k": keys}).slice(n * rows // batches, rows // batches) for n in range(batches)],
            time="ts", progress=ps.slack(0), name=name,
        )
        for name, keys in zip("ab", sides, strict=True)
    )  # fmt: skip
    return left.join(right, "k", within="100ms")
