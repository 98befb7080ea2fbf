"""A key that is spread over sites, and gathered again, changes nothing about the answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

import penstock as ps
from penstock.balance.decisions import Gather, Scale, Spread
from penstock.engine.driver.executor import Executor, InlineExecutor
from penstock.engine.driver.loop import EpochLoop, Outcome
from penstock.engine.task.site.step import MOST_PENDING
from penstock.engine.task.site.storing import OPEN_RUNS
from penstock.errors import StorageError
from penstock.events import ChangeRefused, DirectoryChanged
from penstock.operators.arrange import hashes_of
from penstock.state.hash_ranges import point
from penstock.state.hot_keys import Cells
from penstock.state.runs import restrict
from penstock.storage.faults import InjectedCrash, arm, disarm
from penstock.testing.ways import Way, random_way
from tests.support.amounts import random_cases, some_of
from tests.support.crashes import Place, Scenario, assert_exact, random_fault
from tests.support.looping import looping
from tests.support.queries.data import SECOND
from tests.support.queries.operators import operator_queries
from tests.support.reading_ahead import ReadingAhead
from tests.support.skew import HOT, hash_of, skewed_scenario, step_with_spreading

QUERIES = {name: query for name, query in operator_queries(SECOND).items() if "join" in name}
SPREADABLE = sorted(name for name in QUERIES if "theta" not in name and "full" not in name)
ONE_BY_ONE = Way(sites=3, items=1, item_rows=1)  # so that much is pending
EACH = 3  # schedules in one test
HASH = hash_of(HOT, 64)


@pytest.mark.parametrize("executor", [InlineExecutor, ReadingAhead])
@pytest.mark.parametrize("case", random_cases(8))
def test_any_schedule_gives_the_batch_answer(
    case: int, executor: type[InlineExecutor], random: Random, tmp_path: Path
) -> None:
    for number in range(EACH):
        name, settings = random.choice(SPREADABLE), random.choice([{}, {}, {}, {"order": "in"}])
        scenario, place = skewed_scenario(random, QUERIES[name], **settings), Place(tmp_path / str(number))
        way = _way(random)
        told = step_with_spreading(scenario, place, way, executor(), random)
        changes = [event.what for event in told if isinstance(event, DirectoryChanged)]
        assert_exact(scenario, place, f"{name}, {settings}, {way}\n{changes}\n{scenario.stream.explain()}")


def _way(random: Random) -> Way:
    """Mostly with several sites, and with deadlines that leave much to be done."""
    slow = replace(random_way(random), sites=random.choice([2, 3, 5]), items=1, item_rows=random.choice([1, 3]))
    return random.choice([random_way(random), slow, slow])


@pytest.mark.parametrize("case", random_cases(12))
def test_crashes_between_changes(case: int, random: Random, place: Place) -> None:
    """Also where a run goes on with fewer sites than a key is spread over."""
    name, way, story = random.choice(SPREADABLE), _way(random), []
    scenario = skewed_scenario(random, QUERIES[name])
    for _ in range(3):
        fault = random_fault(random)
        story.append(f"{fault}, {way}")
        arm(fault.point, fault.nth, fault.action)
        try:
            step_with_spreading(scenario, place, way, ReadingAhead(), random)
            break
        except (InjectedCrash, StorageError):
            way = replace(_way(random), hash_bits=way.hash_bits)
        finally:
            disarm()
    step_with_spreading(scenario, place, way, InlineExecutor(), random)
    assert_exact(scenario, place, f"{name}, {story}, then {way}\n{scenario.stream.explain()}")


def hot_rows(loop: EpochLoop, place: Place, port: int) -> list[list[int]]:
    """For each site the times of the rows of the hot key that it stores."""
    state, stored = loop.manifest.subqueries[0], []
    for site in state.sites:
        pieces = [p for p in restrict((*site.slices, *site.pending), [point(HASH)]) if p.run.port == port]
        tables = [OPEN_RUNS.read(place.checkpoint / "runs", piece) for piece in pieces]
        assert all((hashes_of(table) == HASH).all() for table in tables)
        stored.append(sorted(time for table in tables for time in table.column("#time").to_pylist()))
    return stored


def twelve_epochs(seconds: int, within: int, kind: str = "inner", hot: int = 12, keys: range = range(7)) -> Scenario:
    """Every other row of the first `hot` epochs has the hot key, all others one of some; `seconds` lie in between."""
    times = pa.array([n * seconds * SECOND for n in range(144)], pa.timestamp("us"))
    rows = pa.table({"ts": times, "k": [keys[n % len(keys)] if n % 2 or n >= 12 * hot else HOT for n in range(144)]})
    parts = [rows.slice(start, 12) for start in range(0, 144, 12)]
    left, right = (ps.read.batches(parts, time="ts", progress=ps.slack(0), name=name) for name in "ab")
    apart = ps.col("ts") != ps.col("right_ts") if kind == "left" else None
    return Scenario(left.join(right, "k", within=f"{within}s", kind=kind, where=apart))


@pytest.fixture
def joined() -> Scenario:
    """All pairs of rows of a key."""
    return twelve_epochs(1, 3600)


# Where time stands still, marks do not tell which cell has come further; where rows have no partner, some of them may
# be undecided although no row is pending.
STILL, WITHOUT_PARTNER = twelve_epochs(0, 1), twelve_epochs(1, 1, "left", hot=5)


@pytest.mark.parametrize("steps", some_of(range(1, 12)))
@pytest.mark.parametrize("scenario", [STILL, WITHOUT_PARTNER], ids=["still", "without partner"])
def test_cells_that_have_not_come_equally_far_are_not_gathered(scenario: Scenario, steps: int, place: Place) -> None:
    with looping(scenario, place, ONE_BY_ONE, InlineExecutor()) as (loop, _):
        loop.change(0, Spread(HASH, 0, (2, 0, 1)))
        for _ in range(steps):
            loop.step()
        loop.change(0, Gather(HASH))
        while loop.step() is not Outcome.FINISHED:
            pass
        assert loop.manifest.subqueries[0].directory.spread == ()
    assert_exact(scenario, place)


@pytest.mark.parametrize("cut", [0, 1])
def test_rows_of_the_cut_side_are_dealt_out_and_those_of_the_other_copied(
    cut: int, joined: Scenario, place: Place
) -> None:
    with looping(joined, place, Way(sites=4), InlineExecutor()) as (loop, told):
        loop.step()
        assert loop.change(0, Spread(HASH, cut, (3, 0, 2))) is None
        for _ in range(4):
            loop.step()
        dealt, copied = hot_rows(loop, place, cut), hot_rows(loop, place, 1 - cut)
        assert sum(bool(times) for times in dealt) > 1
        assert dealt[1] == copied[1] == []
        assert copied[0] == copied[2] == copied[3] != []
        assert loop.change(0, Gather(HASH)) is None
        loop.step()
        home = loop.directories[0].home_at(HASH)
        assert loop.directories[0].spread == loop.manifest.subqueries[0].directory.spread == ()
        assert len(hot_rows(loop, place, cut)[home]) >= sum(map(len, dealt))
        assert not any(times for site, times in enumerate(hot_rows(loop, place, cut)) if site != home)
        while loop.step() is not Outcome.FINISHED:
            pass
        assert [event.what for event in told if isinstance(event, DirectoryChanged)] == [
            f"spread {HASH:016x} over sites 3, 0, 2",
            f"gather {HASH:016x}",
        ]
    assert_exact(joined, place)


def test_a_key_is_gathered_once_nothing_of_it_is_pending(joined: Scenario, place: Place) -> None:
    """Also at sites that do one item of one row in an epoch and never get through: they do what is to be gathered
    first."""
    with looping(joined, place, ONE_BY_ONE, InlineExecutor()) as (loop, _):
        loop.change(0, Spread(HASH, 0, (0, 1, 2)))
        loop.step()
        loop.step()
        loop.change(0, Gather(HASH))
        loop.step()
        assert loop.manifest.subqueries[0].directory.cells_at(HASH) == Cells(HASH, 0, (0, 1, 2), gathering=True)
        assert any(site.pending for site in loop.manifest.subqueries[0].sites)
        loop.step()
        assert loop.manifest.subqueries[0].directory.spread == ()
        while loop.step() is not Outcome.FINISHED:
            pass
    assert_exact(joined, place)


@pytest.mark.parametrize("most", [MOST_PENDING, -100], ids=["as it is", "written anew"])
@pytest.mark.parametrize("steps", some_of(range(5, 9)))
def test_a_key_does_not_wait_for_what_is_pending_around_it(
    steps: int, most: int, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slices of pending rows span hashes that they have no rows of, also where they are written anew as one run."""
    monkeypatch.setattr("penstock.engine.task.site.step.MOST_PENDING", most)
    scenario = twelve_epochs(1, 3600, hot=2, keys=range(100, 161))
    with looping(scenario, place, ONE_BY_ONE, InlineExecutor()) as (loop, _):
        loop.change(0, Spread(HASH, 0, (0, 1, 2)))
        for _ in range(steps):
            loop.step()
        loop.change(0, Gather(HASH))
        loop.step()
        loop.step()
        assert any(site.pending for site in loop.manifest.subqueries[0].sites)
        assert loop.manifest.subqueries[0].directory.spread == ()
        while loop.step() is not Outcome.FINISHED:
            pass
    assert_exact(scenario, place)


def test_a_run_gets_to_fewer_sites_once_what_is_in_the_way_is_gathered(joined: Scenario, place: Place) -> None:
    with looping(joined, place, ONE_BY_ONE, InlineExecutor()) as (loop, _):
        loop.change(0, Spread(HASH, 0, (2, 1, 0)))
        loop.step()
    for wanted, there in ((2, 3), (2, 2), (2, 2)):  # the first run ends before it has come to two sites
        with looping(joined, place, replace(ONE_BY_ONE, sites=wanted), InlineExecutor()) as (loop, _):
            loop.step()
            assert loop.manifest.subqueries[0].directory.sites == loop.manifest.asked_sites == there
    with looping(joined, place, replace(ONE_BY_ONE, sites=3), InlineExecutor()) as (loop, _):
        loop.change(0, Spread(HASH, 0, (2, 1, 0)))
        loop.step()
    with looping(joined, place, replace(ONE_BY_ONE, sites=1), InlineExecutor()) as (loop, _):
        found = []
        while loop.step() is not Outcome.FINISHED:
            found.append((loop.manifest.subqueries[0].directory.sites, loop.manifest.asked_sites))
        assert found[0] == (3, 3)
        assert set(found[1:]) == {(1, 1)}
    assert_exact(joined, place)


@pytest.mark.parametrize("executor", [InlineExecutor(), ReadingAhead()])
def test_fewer_sites_are_got_to_once_what_is_in_the_way_is_gathered(
    executor: Executor, joined: Scenario, place: Place
) -> None:
    with looping(joined, place, ONE_BY_ONE, executor) as (loop, told):
        loop.change(0, Spread(HASH, 0, (2, 1, 0)))
        loop.step()
        assert not loop.scale([0], 1)
        assert loop.directories[0].sites == 3
        assert not loop.scale([0], 2)  # in place of what was wanted before
        found = []
        while loop.step() is not Outcome.FINISHED:
            found.append(loop.manifest.subqueries[0].directory.sites)
        assert (found[0], found[-1]) == (3, 2)
        assert [e.what for e in told if isinstance(e, DirectoryChanged)][1:] == ["scale to 2 sites"]
    assert_exact(joined, place)


@pytest.mark.parametrize("executor", [InlineExecutor(), ReadingAhead()])
def test_fewer_sites_than_cells(executor: Executor, joined: Scenario, place: Place) -> None:
    """By hand it is refused, and the key gathered; a run that is started with fewer gets to them by itself."""
    way = replace(ONE_BY_ONE, sites=5)
    with looping(joined, place, way, executor) as (loop, told):
        loop.change(0, Spread(HASH, 1, (4, 1, 3)))
        loop.step()
        assert "spread over 3 sites" in (loop.change(0, Scale(2)) or "")
        assert loop.directories[0].cells_at(HASH).gathering  # type: ignore[union-attr]
        assert loop.change(0, Scale(3)) is None
        assert set(loop.directories[0].cells_at(HASH).sites) == {0, 1, 2}  # type: ignore[union-attr]
        loop.step()
        assert any(isinstance(event, ChangeRefused) for event in told)
    for sites in (2, 1):
        with looping(joined, place, replace(way, sites=sites), executor) as (loop, _):
            for _ in range(4):
                loop.step()
    with looping(joined, place, replace(way, sites=1), executor) as (loop, _):
        while loop.step() is not Outcome.FINISHED:
            pass
        assert loop.manifest.subqueries[0].directory.sites == loop.manifest.asked_sites == 1
    assert_exact(joined, place)


def test_what_cannot_be_spread_is_refused(random: Random, place: Place) -> None:
    scenario = skewed_scenario(random, QUERIES["left join"])
    with looping(scenario, place, Way(sites=3), InlineExecutor()) as (loop, _):
        refused = {
            Spread(HASH, 1, (0, 1)): "cannot be distributed",
            Spread(HASH, 0, (0,)): "two sites",
            Spread(HASH, 0, (0, 0)): "two sites",
            Spread(HASH, 0, (0, 3)): "3 sites",
            Spread(2**64, 0, (0, 1)): "no such hash",
            Gather(HASH): "not spread",
        }
        for change, why in refused.items():
            assert why in (loop.change(0, change) or ""), change
        assert loop.change(0, Spread(HASH, 0, (2, 1))) is None
        assert "already" in (loop.change(0, Spread(HASH, 0, (2, 0))) or "")
        assert loop.change(0, Gather(HASH)) is None
        assert "already" in (loop.change(0, Gather(HASH)) or "")


MAY_CUT = {
    "inner join": (0, 1), "left join": (0,), "right join": (1,), "full join": (), "semi join": (0,), "anti join": (0,),
    "three-way join": (0, 1, 2), "theta join": (),
}  # fmt: skip


@pytest.mark.parametrize("name", MAY_CUT)
def test_only_sides_that_see_all_their_partners_are_cut(name: str, random: Random, place: Place) -> None:
    scenario = skewed_scenario(random, QUERIES[name])
    with looping(scenario, place, Way(sites=2), InlineExecutor()) as (loop, _):
        refused = [loop.change(0, Spread(n, n, (0, 1))) for n in range(4)]
        assert tuple(n for n, why in enumerate(refused) if why is None) == MAY_CUT[name]


def test_nothing_is_read_ahead_while_a_key_is_to_be_gathered(joined: Scenario, place: Place) -> None:
    """Otherwise the next epoch would always be routed before it is known whether it can be."""
    executor = ReadingAhead()
    with looping(joined, place, Way(sites=2), executor) as (loop, _):
        loop.change(0, Spread(HASH, 0, (0, 1)))
        loop.step()
        loop.change(0, Gather(HASH))
        loop.step()
        assert executor.used == 1
        assert loop.manifest.subqueries[0].directory.spread, "this epoch had been routed by then"
        loop.step()
        assert executor.used == 1
        assert loop.manifest.subqueries[0].directory.spread == ()
        loop.step()
        assert executor.used == 2
        while loop.step() is not Outcome.FINISHED:
            pass
    assert_exact(joined, place)
