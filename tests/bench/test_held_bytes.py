"""What is counted as held, on manifests made by hand."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import penstock as ps
from penstock.plan.compile.subqueries import compile_query
from penstock.plan.options import CompileOptions
from penstock.plan.program import Program
from penstock.progress.mark import BEGIN, END, MAX_TIME, Mark, at
from penstock.state.directory import uniform
from penstock.state.hash_ranges import EVERYTHING, HashRange
from penstock.state.model import Manifest, RangeMark, SiteState, SubqueryState, Totals
from penstock.state.runs import HASH, TIME, RunFile, Slice
from penstock.storage.run_files import write_run
from penstock_bench.order.held import Held, HeldBytes

LOWER_HALF = HashRange(0, 50)


@pytest.fixture
def run(tmp_path: Path) -> RunFile:
    """Ten rows with the hashes and the times 0, 10, ..., 90."""
    numbers = [10 * n for n in range(10)]
    return write_run(tmp_path, "run", pa.table({HASH: pa.array(numbers, pa.uint64()), TIME: pa.array(numbers)}))


def program() -> Program:
    """An aggregate over windows of 10, and behind it what brings its result in order."""
    stream = ps.read.table([{"n": 0}], time="n").window(ps.tumbling(10)).agg(count=ps.count())
    compiled = compile_query(stream.to.memory().sink, CompileOptions(in_order=True)).program
    assert len(compiled.subqueries) == 2
    return compiled


def site(mark: Mark = BEGIN, released: Mark = BEGIN, **slices: tuple[Slice, ...]) -> SiteState:
    return SiteState(**{"slices": ()} | slices, marks=(RangeMark(EVERYTHING, (mark,)),), released=released)


def counted(folder: Path, aggregate: SiteState, reorder: SiteState | None = None) -> Held:
    subqueries = tuple(SubqueryState(uniform(1), (state,)) for state in (aggregate, reorder or site()))
    manifest = Manifest("id", "fingerprint", 1, (), subqueries, (), {}, Totals(), False)
    return HeldBytes(program(), folder).count(manifest)


def test_nothing_is_held_at_first(tmp_path: Path) -> None:
    assert counted(tmp_path, site()) == Held(0, 0, 0)


def test_state_counts_until_it_has_expired(tmp_path: Path, run: RunFile) -> None:
    piece = (Slice(run, EVERYTHING),)
    assert counted(tmp_path, site(slices=piece)) == Held(state=run.size)
    assert counted(tmp_path, site(at(30), slices=piece)) == Held(state=round(run.size * 0.7))
    assert counted(tmp_path, site(END, slices=piece)) == Held()


def test_a_slice_counts_for_its_rows_only(tmp_path: Path, run: RunFile) -> None:
    piece = (Slice(run, LOWER_HALF),)
    assert counted(tmp_path, site(slices=piece)) == Held(state=round(run.size * 0.5))
    assert counted(tmp_path, site(at(30), slices=piece)) == Held(state=round(run.size * 0.2))


def test_pending_rows_all_count(tmp_path: Path, run: RunFile) -> None:
    assert counted(tmp_path, site(at(30), pending=(Slice(run, LOWER_HALF),))) == Held(pending=round(run.size * 0.5))


def test_rows_that_the_merger_has_let_through_do_not_count(tmp_path: Path, run: RunFile) -> None:
    held = (Slice(run, EVERYTHING),)
    assert counted(tmp_path, site(held=held)) == Held(ordering=run.size)
    assert counted(tmp_path, site(released=at(81), held=held)) == Held(ordering=round(run.size * 0.1))
    assert counted(tmp_path, site(released=END, held=held)) == Held()


def test_at_the_end_no_row_is_held_back_not_even_one_of_the_largest_time(tmp_path: Path) -> None:
    rows = pa.table({HASH: pa.array([0], pa.uint64()), TIME: pa.array([MAX_TIME])})
    held = (Slice(write_run(tmp_path, "last", rows), EVERYTHING),)
    assert counted(tmp_path, site(released=at(MAX_TIME), held=held)).ordering > 0
    assert counted(tmp_path, site(released=END, held=held)) == Held()


def test_what_waits_before_the_sink_is_held_for_order(tmp_path: Path, run: RunFile) -> None:
    piece = (Slice(run, EVERYTHING),)
    both = counted(tmp_path, site(slices=piece), site(at(50), slices=piece))
    assert both == Held(state=run.size, ordering=round(run.size * 0.5))
    assert both.total == run.size + round(run.size * 0.5)
