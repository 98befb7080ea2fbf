"""What sites tell of each group is true: the rows that came of it, its bytes, when it was last used, the memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.balance.decisions import Merge, Move, SplitGroup
from penstock.balance.stats import IntArray, Loads, RoundStats
from penstock.engine.driver.executor import InlineExecutor
from penstock.engine.driver.loop import EpochLoop, Outcome
from penstock.engine.driver.showing import subquery_status
from penstock.engine.task.site.counting import OutputByGroup, SiteBorders
from penstock.engine.task.site.storing import InPlace
from penstock.engine.task.site.working import Work, WorkItem
from penstock.kernels.hash import hash_columns
from penstock.operators.arrange import hashes_of
from penstock.operators.protocol import Operator, Portion
from penstock.state.directory import Directory, Group, uniform
from penstock.state.hash_ranges import HashRange, remaining
from penstock.state.hot_keys import Cells
from penstock.state.model import SubqueryState
from penstock.state.runs import Slice
from penstock.testing.ways import Way, random_way
from tests.support.amounts import random_cases
from tests.support.crashes import Place, Scenario
from tests.support.looping import looping
from tests.support.queries.data import SECOND
from tests.support.queries.operators import operator_queries
from tests.support.schedules import random_change
from tests.support.skew import HOT, random_change_of_keys, skewed_scenario

QUERIES = operator_queries(SECOND)


def inside(portion: Portion, part: HashRange) -> Portion:
    """The part of a portion that lies in a range of hashes."""
    stored = tuple([replace(s, rows=_rows(s.rows, part)) for s in tables] for tables in portion.stored)
    filled = tuple([s for s in tables if s.rows.num_rows] for tables in stored)
    return replace(portion, stored=filled, fresh=tuple(_rows(rows, part) for rows in portion.fresh))


def _rows(rows: pa.Table, part: HashRange) -> pa.Table:
    return rows[part.rows(hashes_of(rows))]


def emitted(operator: Operator, portion: Portion, parts: Sequence[HashRange]) -> int:
    """How many rows an operator emits if it is given nothing but some ranges."""
    return sum(rows.num_rows for part in parts for rows in operator.work(inside(portion, part)).results)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The output of all work items that were done, each compared with what its groups and cells emit one by one."""
    found: list[int] = []
    do = Work._do

    def compared(work: Work, item: WorkItem, portion: Portion) -> None:
        output = work._counts
        assert isinstance(output, OutputByGroup)
        before = output.total.copy()
        do(work, item, portion)
        cells, groups = _ranges(output.borders)
        own = [remaining([group], cells) for group in groups]
        true = [emitted(work._operator, portion, parts) for parts in (*own, *([cell] for cell in cells))]
        assert (output.total - before).tolist() == true
        found.append(sum(true))

    monkeypatch.setattr(Work, "_do", compared)
    return found


def _ranges(borders: SiteBorders) -> tuple[list[HashRange], list[HashRange]]:
    kinds = (borders.cells, borders.groups)
    first, second = (
        [HashRange(low, high + 1) for low, high in zip(kind.first.tolist(), kind.last.tolist(), strict=True)]
        for kind in kinds
    )
    return first, second


@pytest.mark.parametrize("name", QUERIES)
def test_output_is_counted_where_it_comes_from(name: str, counted: list[int], random: Random, tmp_path: Path) -> None:
    """Whatever the sites, the items, the hashes, the moves of groups, and the cells of keys."""
    for number in random_cases(2):
        scenario, way = skewed_scenario(random, QUERIES[name]), random_way(random)
        with looping(scenario, Place(tmp_path / str(number)), way, InlineExecutor(), policy="static") as (loop, _):
            loop.watched = True
            while loop.step() is not Outcome.FINISHED:
                loop.watched = True
                change_something(loop, random, way)
    assert sum(counted) > 0


def change_something(loop: EpochLoop, random: Random, way: Way) -> None:
    number = random.randrange(len(loop.directories))
    directory, ports = loop.directories[number], loop.query.program.subqueries[number].operator.ports
    of_keys = random_change_of_keys(random, directory, ports, random.choice([HOT, HOT, 1]), way.hash_bits)
    loop.change(number, random.choice([of_keys, random_change(random, directory)]))


DEPTH = 4
HASHES = st.lists(st.tuples(st.integers(0, 2**DEPTH - 1), st.integers(0, 2)), max_size=40)


@given(
    st.lists(st.integers(0, 1), min_size=2**DEPTH, max_size=2**DEPTH),
    st.sets(st.tuples(st.integers(0, 2**DEPTH - 1), st.integers(0, 2)), max_size=4),
    HASHES,
    st.lists(st.integers(0, 39), max_size=60),
)
def test_rows_of_cells_are_not_those_of_a_group(
    homes: list[int], spread: set[tuple[int, int]], hashes: list[tuple[int, int]], rows: list[int]
) -> None:
    """Also where the group around a cell is at another site, which has no rows of the group."""
    cells = sorted(_hash(*cell) for cell in spread)
    over = tuple(Cells(hash_, 0, (0, 1)) for hash_ in cells)
    directory = Directory(2, uniform(1, 2**DEPTH).groups, tuple(homes), over)
    own = sorted(_hash(*h) for h in hashes if _hash(*h) in cells or homes[h[0]] == 0)
    chosen = sorted(row for row in rows if row < len(own))
    groups = [place for place in range(2**DEPTH) if homes[place] == 0]

    def expected(found: list[int]) -> list[int]:
        in_groups = [h >> (64 - DEPTH) for h in found if h not in cells]
        return [*(in_groups.count(group) for group in groups), *(found.count(cell) for cell in cells)]

    output, column = OutputByGroup(SiteBorders.of(directory, 0)), np.asarray(own, np.uint64)
    output.add(column)
    assert output.total.tolist() == expected(own)
    output.add(column, np.asarray(chosen, np.int64))
    assert output.total.tolist() == expected([*own, *(own[row] for row in chosen)])
    for hash_ in own:
        output.add_of_hash(hash_, 3)
    assert output.total.tolist() == expected([*own * 4, *(own[row] for row in chosen)])


def _hash(cell: int, n: int) -> int:
    return Group(cell, DEPTH).low + n


STATE = {
    "state_bytes": ("slices", "active"),
    "pending_bytes": ("pending",),
    "held_bytes": ("held",),
}  # statistics, and the slices that they are of


@pytest.mark.parametrize("order", ["in", "any"])
@pytest.mark.parametrize("case", random_cases(9))
def test_bytes_are_those_of_the_rows_in_the_runs(case: int, order: str, random: Random, tmp_path: Path) -> None:
    """Of groups without the cells in them, and of the site with all."""
    scenario = skewed_scenario(random, QUERIES["inner join"], order=order)
    way = Way(sites=3, groups_per_site=4, items=1, item_rows=3, hash_bits=random.choice([64, 8]))
    with looping(scenario, Place(tmp_path), way, InlineExecutor(), policy="static") as (loop, _):
        loop.watched = True
        while loop.step() is not Outcome.FINISHED:
            for state, stats in zip(loop.manifest.subqueries, loop.stats, strict=True):
                true = true_bytes(state, InPlace(loop.checkpoint.runs))
                for kind in STATE:
                    assert getattr(stats.loads, kind).tolist() == true[kind].tolist()
                assert [memory.used for memory in stats.site_memory] == true["sites"].tolist()
            loop.watched = True
            change_something(loop, random, way)


@pytest.mark.parametrize(("order", "slack", "kind"), [("any", 0, "pending_bytes"), ("in", 1000, "held_bytes")])
def test_rows_that_wait_have_bytes_in_their_groups(order: str, slack: int, kind: str, tmp_path: Path) -> None:
    """For work, or for rows before them."""
    scenario = few_keys(range(40), [1], slack=slack, order=order)
    way = Way(sites=2, groups_per_site=4, items=1, item_rows=1)
    with looping(scenario, Place(tmp_path), way, InlineExecutor(), policy="static") as (loop, _):
        watched_step(loop)
        state, stats = loop.manifest.subqueries[0], loop.stats[0]  # of the join
        true = true_bytes(state, InPlace(loop.checkpoint.runs))
        assert np.count_nonzero(true[kind]) == 8
        assert getattr(stats.loads, kind).tolist() == true[kind].tolist()


def true_bytes(state: SubqueryState, runs: InPlace) -> dict[str, IntArray]:
    """The bytes of each kind by group, row by row, and those of all kinds by site."""
    directory, spread = state.directory, {cells.hash for cells in state.directory.spread}
    found = {kind: np.zeros(len(directory.groups), np.int64) for kind in STATE}
    found["sites"] = np.zeros(directory.sites, np.int64)
    for kind, names in STATE.items():
        for site, held in enumerate(state.sites):
            pieces = [piece for name in names for piece in getattr(held, name)]
            for hash_, size in (row for piece in pieces for row in _sizes(runs, piece)):
                found[kind][directory.place_at(hash_)] += 0 if hash_ in spread else size
                found["sites"][site] += size
    return found


def _sizes(runs: InPlace, piece: Slice) -> list[tuple[int, int]]:
    """The hash and the bytes of each row of a slice."""
    return [(hash_, piece.run.size // piece.run.rows) for hash_ in hashes_of(runs.read(piece)).tolist()]


WAY = Way(sites=2, groups_per_site=4)
ONE, OTHER = 1, 2  # two keys whose groups are not neighbours


def few_keys(*epochs: Sequence[int], slack: int = 0, order: str = "any") -> Scenario:
    """A join that keeps all rows; each epoch brings rows of some keys."""
    parts = [pa.table({"ts": [n] * len(keys), "k": pa.array(keys, pa.int64())}) for n, keys in enumerate(epochs)]
    left, right = (ps.read.batches(parts, time="ts", progress=ps.slack(slack), name=name) for name in "ab")
    return Scenario(left.join(right, "k", within="1s"), {"order": order})


def last_used(loop: EpochLoop) -> dict[str, int]:
    """The last use of each group that is known to have one."""
    (stats,) = loop.stats
    every = zip(stats.directory.groups, stats.loads.last_used.tolist(), strict=True)
    return {str(group): epoch for group, epoch in every if epoch}


def group_of(loop: EpochLoop, key: int) -> Group:
    directory = loop.directories[0]
    return directory.groups[directory.place_at(int(hash_columns([pa.array([key], pa.int64())])[0]))]


def watched_step(loop: EpochLoop) -> None:
    loop.watched = True
    loop.step()


def test_a_group_was_last_used_when_rows_of_it_came(tmp_path: Path) -> None:
    scenario, place = few_keys([ONE], [OTHER], [OTHER], [ONE], [OTHER], [OTHER]), Place(tmp_path)
    with looping(scenario, place, WAY, InlineExecutor(), policy="static") as (loop, _):
        one, other = group_of(loop, ONE), group_of(loop, OTHER)
        watched_step(loop)
        assert last_used(loop) == {str(one): 1}
        watched_step(loop)
        assert last_used(loop) == {str(one): 1, str(other): 2}
        loop.change(0, SplitGroup(one))
        watched_step(loop)
        first, second = one.halves
        assert last_used(loop) == {str(first): 1, str(second): 1, str(other): 3}
        watched_step(loop)
        here, there = (first, second) if group_of(loop, ONE) == first else (second, first)
        assert last_used(loop) == {str(here): 4, str(there): 1, str(other): 3}
        loop.change(0, Merge(one))
        loop.change(0, Move(other, loop.directories[0].home(other), 1 - loop.directories[0].home(other)))
        loop.step()  # nobody watches, so nobody knows what comes
        assert last_used(loop)[str(other)] == 3
    with looping(scenario, place, WAY, InlineExecutor(), policy="static") as (loop, _):
        watched_step(loop)  # a run that starts again knows no more than what it sees
        assert last_used(loop) == {str(other): 6}


def test_a_merged_group_was_last_used_when_one_of_its_halves_was(tmp_path: Path) -> None:
    with looping(few_keys([ONE], [OTHER], [OTHER]), Place(tmp_path), WAY, InlineExecutor(), policy="static") as (
        loop,
        _,
    ):
        one = group_of(loop, ONE)
        watched_step(loop)
        loop.change(0, Merge(one.parent))
        watched_step(loop)
        assert last_used(loop)[str(one.parent)] == 1


@given(st.integers(0, 2**32 - 1))
def test_last_use_passes_to_whatever_groups_come_of_a_group(seed: int) -> None:
    random = Random(seed)
    before, after = (_random_directory(random) for _ in range(2))
    known = np.asarray([random.randint(0, 9) for _ in before.groups])
    earlier, later = (
        RoundStats(d, 1, 1.0, Loads.none(len(d.groups)), np.ones(1), np.ones(1), np.ones(1)) for d in (before, after)
    )
    carried = later.remembering(replace(earlier, loads=replace(earlier.loads, last_used=known)))
    overlaps = [before.overlapping(group) for group in after.groups]
    assert carried.loads.last_used.tolist() == [int(known[first:last].max()) for first, last in overlaps]


def _random_directory(random: Random) -> Directory:
    directory = uniform(1, 1)
    for _ in range(random.randint(0, 12)):
        directory = directory.split(random.choice(directory.groups))
    return directory


def test_who_watches_sees_what_groups_bring_and_hold_and_the_memory_of_sites(tmp_path: Path) -> None:
    with looping(few_keys([ONE, ONE, OTHER]), Place(tmp_path), WAY, InlineExecutor()) as (loop, _):
        one, other = str(group_of(loop, ONE)), str(group_of(loop, OTHER))
        watched_step(loop)
        (stats,) = loop.stats
        shown = subquery_status(loop.query.program.subqueries[0], stats)
    groups = {group.group: group for group in shown.hottest}
    assert groups[one].output_per_second * stats.seconds == pytest.approx(4)
    assert groups[other].output_per_second * stats.seconds == pytest.approx(1)
    assert [groups[bits].last_used for bits in (one, other)] == [1, 1]
    assert sum(site.used_bytes for site in shown.sites) == sum(group.state_bytes for group in shown.hottest)
    assert all(0 < site.resident_bytes <= site.memory_limit for site in shown.sites)
