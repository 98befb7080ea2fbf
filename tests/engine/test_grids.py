"""The grid of a theta join follows the number of sites, at a start, at a restart and while the query runs; the answer
does not change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_streams import answer

import penstock as ps
from penstock.api.streams import Stream
from penstock.balance.decisions import Move
from penstock.checkpoint.store import Checkpoint
from penstock.engine.driver.executor import InlineExecutor
from penstock.engine.driver.grids import may_regrid, regridded
from penstock.engine.driver.loop import EpochLoop, Outcome
from penstock.engine.driver.recovery import recover
from penstock.engine.wire.job import EpochJob, LookAhead, Report, RouteTask, nothing_follows
from penstock.errors import StorageError
from penstock.operators.protocol import Gridded
from penstock.plan.compile.subqueries import compile_query
from penstock.plan.options import CompileOptions
from penstock.progress.mark import at
from penstock.settings import Settings
from penstock.state.directory import uniform
from penstock.state.grid import cell_hashes, grid_for
from penstock.state.hash_ranges import EVERYTHING
from penstock.state.model import RangeMark, SiteState, SubqueryState
from penstock.state.runs import RunFile, Slice
from penstock.testing.rows import assert_same_rows
from tests.support.amounts import random_cases, some_of

KINDS = ("within", "last rows", "in order")


def source(name: str, random: Random, rows: int = 90) -> Stream:
    times = sorted(random.randrange(80) for _ in range(rows))
    late = [min(79, time + random.randrange(4)) for time in times]
    order = sorted(range(rows), key=lambda n: late[n])
    tables = [
        pa.table({"ts": [times[n] for n in order[a : a + 15]], name: order[a : a + 15]}) for a in range(0, rows, 15)
    ]
    return ps.read.batches(tables, time="ts", progress=ps.slack(4), name=name)


def joined(kind: str, random: Random) -> Stream:
    a, b = source("a", random), source("b", random)
    condition = ps.col("a") % 3 <= ps.col("b") % 5
    return a.theta_join(b, condition, last_rows=(4, 7)) if kind == "last rows" else a.theta_join(b, condition, within=9)


class Dying(InlineExecutor):
    """Loses the reports of the first epoch in which a grid changes."""

    died = False

    def run(self, job: EpochJob, routes: Sequence[RouteTask], following: LookAhead = nothing_follows) -> list[Report]:
        reports = super().run(job, routes, following)
        if job.regridded and not self.died:
            self.died = True
            raise OSError("the driver dies")
        return reports


def opened(
    query: Stream, folder: Path, kind: str, executor: InlineExecutor | None = None, **settings: object
) -> EpochLoop:
    chosen = Settings().with_options(order="in" if kind == "in order" else "any", **settings)  # type: ignore[arg-type]
    compiled = compile_query(query.to.files(str(folder / "out")).sink, CompileOptions.of(chosen))
    return EpochLoop(recover(compiled, Checkpoint.open(folder / "ck"), chosen), executor or InlineExecutor())


def cells_of_sites(loop: EpochLoop) -> Counter[int]:
    directory = loop.manifest.subqueries[0].directory
    return Counter(directory.home_at(int(hash_)) for hash_ in cell_hashes(directory.grid or (1, 1)))


def to_the_end(loop: EpochLoop, random: Random | None = None) -> None:
    """With moves and other numbers of sites on the way, where there is chance."""
    for _ in range(200):
        if random is not None and random.random() < 0.3:
            loop.scale([0], random.randint(1, 16))
        if random is not None and random.random() < 0.3:
            directory = loop.directories[0]
            group = random.choice(directory.groups)
            loop.change(0, Move(group, directory.home(group), random.randrange(directory.sites)))
        if loop.step() is Outcome.FINISHED:
            return
    raise AssertionError("it does not end")


def test_nine_sites_have_one_cell_of_nine_each() -> None:
    directory = uniform(9).gridded(grid_for(9))
    assert directory.grid == (3, 3)
    assert sorted(directory.home_at(int(hash_)) for hash_ in cell_hashes((3, 3))) == list(range(9))


@pytest.mark.parametrize("sites", range(1, 65))
def test_a_grid_has_a_cell_for_each_site_and_few_more(sites: int) -> None:
    rows, columns = grid_for(sites)
    assert sites <= rows * columns <= sites + 2 * sites**0.5
    homes = Counter(uniform(sites).gridded((rows, columns)).home_at(int(h)) for h in cell_hashes((rows, columns)))
    assert set(homes) == set(range(sites))
    assert max(homes.values()) <= 2


@pytest.mark.parametrize("sites", some_of([1, 2, 3, 5, 9, 13, 16]))
@pytest.mark.parametrize("kind", KINDS[:2])
def test_the_answer_is_the_same_on_any_number_of_sites(kind: str, sites: int, random: Random, tmp_path: Path) -> None:
    query = joined(kind, random)
    loop = opened(query, tmp_path, kind, sites=sites)
    to_the_end(loop)
    assert len(cells_of_sites(loop)) == sites
    assert_same_rows(pq.read_table(tmp_path / "out"), answer(query))


@pytest.mark.parametrize("case", random_cases(6))
@pytest.mark.parametrize("kind", KINDS)
def test_the_grid_follows_while_the_query_runs(kind: str, case: int, random: Random, tmp_path: Path) -> None:
    query = joined(kind, random)
    pending = {"items": random.choice([None, 1, 2]), "item_rows": random.choice([1, 20, 1000])}
    loop = opened(query, tmp_path, kind, sites=random.randint(1, 6), rows_per_epoch=15, **pending)
    to_the_end(loop, random)
    assert_same_rows(pq.read_table(tmp_path / "out"), answer(query))


@pytest.mark.parametrize("kind", KINDS)
def test_the_grid_follows_at_a_restart(kind: str, random: Random, tmp_path: Path) -> None:
    query, grids = joined(kind, random), []
    for sites in (2, 9, 4):
        loop = opened(query, tmp_path, kind, sites=sites, rows_per_epoch=15)
        loop.step()
        loop.step()
        grids.append(loop.manifest.subqueries[0].directory.grid)
        assert len(cells_of_sites(loop)) == sites
        loop.checkpoint.close()
    to_the_end(opened(query, tmp_path, kind, sites=4, rows_per_epoch=15))
    assert grids == ([(1, 2), (1, 9), (1, 4)] if kind == "last rows" else [(1, 2), (3, 3), (2, 2)])
    assert_same_rows(pq.read_table(tmp_path / "out"), answer(query))


@pytest.mark.parametrize("kind", KINDS)
def test_a_crash_while_the_grid_changes_loses_nothing(kind: str, random: Random, tmp_path: Path) -> None:
    query, executor = joined(kind, random), Dying()
    loop = opened(query, tmp_path, kind, executor, sites=2, rows_per_epoch=15)
    loop.step()
    loop.step()
    loop.scale([0], 9)
    with pytest.raises(StorageError):
        to_the_end(loop)
    loop.checkpoint.close()
    to_the_end(opened(query, tmp_path, kind, sites=9, rows_per_epoch=15))
    assert_same_rows(pq.read_table(tmp_path / "out"), answer(query))


def test_a_grid_changes_only_where_all_cells_have_come_equally_far_and_nothing_is_pending() -> None:
    """A row that is pending in one cell may be done in the others of its lane, also where no mark has moved."""
    directory, run = uniform(2).gridded((1, 2)), RunFile("e1-x.arrow", 0, 3, 512, "0" * 16, 1, 2, 3)
    homes = [directory.ranges_of(site) for site in (0, 1)]

    def state(*marks: int, pending: bool = False) -> SubqueryState:
        waiting = (Slice(run, homes[0][0]),) if pending else ()
        parts = [tuple(RangeMark(part, (at(mark),)) for part in home) for home, mark in zip(homes, marks, strict=True)]
        return SubqueryState(directory, (SiteState((), parts[0], waiting), SiteState((), parts[1])))

    assert may_regrid(state(5, 5))
    assert not may_regrid(state(5, 6))
    assert not may_regrid(state(5, 5, pending=True))


def test_rows_that_were_let_through_before_the_grid_changed_are_not_let_through_again(random: Random) -> None:
    """Slices of held rows may have some of them: the bound goes on with the state."""
    query = compile_query(joined("in order", random).to.memory().sink, CompileOptions.of(Settings(order="in")))
    operator = query.program.subqueries[0].operator
    assert isinstance(operator, Gridded)
    before, after = uniform(2).gridded((1, 2)), uniform(4).gridded((2, 2))
    sites = (SiteState((), (RangeMark(part, (at(9), at(9))),), released=at(7)) for part in (EVERYTHING, EVERYTHING))
    changed = regridded(SubqueryState(before, tuple(sites)), after, operator)
    assert [site.released for site in changed.sites] == [at(7)] * 4
