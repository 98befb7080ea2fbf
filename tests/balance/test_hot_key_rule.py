"""When a key is spread, over which sites, and when it is gathered."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from even_case import changed, figures_of

from penstock.balance.decisions import Gather, Spread
from penstock.balance.estimate import demand
from penstock.balance.keys import CellLoads, KeyLoad, heaviest
from penstock.balance.policies.even import Even, gathers, spreads
from penstock.balance.stats import RoundStats
from penstock.state.directory import uniform
from penstock.state.hot_keys import Cells

DIRECTORY = uniform(4, 4)
HASH = DIRECTORY.groups[5].range.low + 12345  # it lives at site 1


def hot(rows: tuple[int, ...], may_cut: tuple[int, ...] = (0, 1), others: int = 1000) -> RoundStats:
    """A key with some rows beside groups that have a thousand each."""
    counts = [others + (sum(rows) if place == 5 else 0) for place in range(len(DIRECTORY.groups))]
    stats = figures_of(DIRECTORY, counts, heaviest=[1] * 5 + [sum(rows)] + [1] * 10)
    return replace(stats, may_cut=may_cut, keys=(KeyLoad(HASH, rows), KeyLoad(17, (1, 1))))


def spread(cut: list[int], copied: int) -> RoundStats:
    """A key in three cells beside groups that have a thousand rows each; all rows cost the same."""
    directory = DIRECTORY.spread_over(Cells(HASH, 0, (1, 0, 3)))
    stats = figures_of(directory, [1000] * len(directory.groups))
    copies = np.asarray([[copied, copied, 0, copied]])
    rows = np.asarray([cut]) + copies
    cells = CellLoads(np.asarray([cut]), copies, rows, rows / 1000, rows)
    return replace(stats, cells=cells, busy=stats.busy + cells.seconds[0], may_cut=(0, 1))


def test_a_key_with_more_work_than_a_site_on_average_is_spread_and_its_larger_side_cut() -> None:
    for rows, cut in (((12_000, 400), 0), ((400, 12_000), 1)):
        (decision,) = Even().decide(hot(rows))
        assert isinstance(decision.change, Spread)
        assert (decision.change.hash, decision.change.cut) == (HASH, cut)
        assert decision.change.sites[0] == 1, "what is there stays there"
        assert len(set(decision.change.sites)) == 4
        assert decision.gain == pytest.approx(0.54, abs=0.01)  # of 16.4 s, 3 s stay, a quarter of 12 s and 0.4 s come


def test_a_key_gets_as_many_cells_as_it_needs() -> None:
    (decision,) = spreads(hot((5_500, 10)), demand(hot((5_500, 10))), 0.05)
    assert len(decision.change.sites) == 3  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("stats", "why"),
    [
        (hot((4_000, 0)), "it is less than a site does"),
        (hot((12_000, 400), may_cut=()), "nothing may be cut"),
        (hot((400, 12_000), may_cut=(0,)), "only the small side may be cut, and copying the large one gains nothing"),
        (hot((90, 0), others=1), "so few rows say nothing"),
    ],
)
def test_a_key_is_not_spread_for_nothing(stats: RoundStats, why: str) -> None:
    assert spreads(stats, demand(stats), 0.05) == [], why


def test_what_is_spread_is_not_spread_again() -> None:
    stats = hot((12_000, 400))
    stats = replace(stats, directory=DIRECTORY.spread_over(Cells(HASH, 0, (1, 2))))
    assert spreads(stats, demand(stats), 0.05) == []


def test_a_key_is_gathered_when_one_site_could_do_it() -> None:
    cold, warm = spread([300, 200, 0, 300], 400), spread([1500, 1500, 0, 1500], 400)
    assert [decision.change for decision in gathers(cold, demand(cold))] == [Gather(HASH)]
    assert gathers(warm, demand(warm)) == []
    waiting = replace(cold, directory=cold.directory.gathering([HASH]))
    assert gathers(waiting, demand(waiting)) == []


def test_copies_do_not_count_as_work_that_one_site_would_have() -> None:
    """1,500 copies in each of three cells are 1,500 rows at one site, less than half of what a site does."""
    stats = spread([10, 10, 0, 10], 1500)
    assert [decision.change for decision in gathers(stats, demand(stats))] == [Gather(HASH)]


def test_in_a_round_with_hardly_any_rows_nothing_is_gathered() -> None:
    stats = spread([1, 1, 0, 1], 1)
    stats = replace(stats, loads=replace(stats.loads, rows=stats.loads.rows // 100))
    assert gathers(stats, demand(stats)) == []


def test_the_work_of_cells_is_not_that_of_groups() -> None:
    stats = spread([3000, 3000, 0, 3000], 0)
    asked = demand(stats)
    assert asked.work == pytest.approx(np.full(16, 1.0), rel=0.01)
    assert asked.cells.sum(axis=0) == pytest.approx([3, 3, 0, 3], rel=0.01)
    assert asked.ideal == pytest.approx(25 / 4, rel=0.01)


def test_the_work_of_cells_is_that_of_all_rows_that_came() -> None:
    """A deadline let sites do a third of them, or none."""
    stats, done = spread([3000, 3000, 0, 3000], 0), np.asarray([[1000, 3000, 0, 0]])
    cells = replace(stats.cells, done=done, seconds=done / 1000)
    asked = demand(replace(stats, cells=cells, busy=stats.of_sites(stats.loads.rows) / 1000 + cells.seconds[0]))
    assert asked.cells.sum(axis=0) == pytest.approx([3, 3, 0, 3], rel=0.01)
    assert asked.work == pytest.approx(np.full(16, 1.0), rel=0.01)


def test_groups_move_away_from_cells() -> None:
    stats = spread([3000, 3000, 0, 3000], 0)
    after = changed(stats.directory, Even().decide(stats))
    groups = [2.0 ** (4 - group.depth) for group in after.groups]
    work = np.bincount(after.homes, weights=groups) + np.asarray([3, 3, 0, 3])
    assert work == pytest.approx(np.full(4, 25 / 4), rel=0.05)


def test_the_heaviest_keys_are_added_up_by_hash() -> None:
    told = [KeyLoad(n, (n, 1)) for n in range(30)] + [KeyLoad(3, (100, 0))]
    assert heaviest(told)[0] == KeyLoad(3, (103, 1))
    assert len(heaviest(told)) == 16


def test_rows_of_a_round_are_counted_without_their_copies() -> None:
    stats = spread([3000, 3000, 0, 3000], 500)
    assert stats.rows_in == 16_000 + 9_000 + 500
    assert stats.then(stats).rows_in == 2 * stats.rows_in
