"""Every operator counts its result rows at the groups they belong to: where the hash of a result's own key lies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from closing_driver import ClosingDriver
from join_case import run as run_join
from row_operator_run import OperatorRun
from theta_case import Driver

from penstock.engine.task.site.counting import OutputByGroup, SiteBorders
from penstock.expr.tree import Call, Column, Expr
from penstock.kernels.arrays import Words
from penstock.kernels.hash import hash_columns
from penstock.operators.aggregates.measures import Measure
from penstock.operators.band_join import match as join_match
from penstock.operators.band_join import probes as join_search
from penstock.operators.band_join import work as join_work
from penstock.operators.band_join.join import BandJoin
from penstock.operators.bands import Band
from penstock.operators.distinct import DistinctRows
from penstock.operators.equal_times import EqualTimesAggregate
from penstock.operators.protocol import Operator
from penstock.operators.reorder import Reorder
from penstock.operators.session.session import SessionAggregate
from penstock.operators.theta_join.grid import codes_of, lanes_of
from penstock.operators.theta_join.join import GridJoin
from penstock.operators.theta_join.last_rows import LastRowsJoin
from penstock.operators.top import OrderColumn, TopRows
from penstock.operators.window import lateness, windows
from penstock.operators.window.aggregate import WindowAggregate
from penstock.operators.window.kinds import Session
from penstock.operators.window.lateness import MISSED
from penstock.operators.window.windows import Window
from penstock.progress.mark import BEGIN, END, Mark, at
from penstock.state.directory import Directory, uniform
from tests.support.amounts import some_of

ROWS = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("v", pa.int64())])
COUNT = (Measure("n", "count", None),)
BITS = pytest.mark.parametrize("bits", some_of([64, 8, 3]))


def keys(random: Random, rows: int, nulls: bool = False) -> list[int | None]:
    """Few keys, of which one has about half of the rows."""
    pool: list[int | None] = [7, 7, 7, 7, 7, 7, *range(12)]
    return random.choices([*pool, None, None] if nulls else pool, k=rows)


def rows_of(random: Random, rows: int, span: int = 40, nulls: bool = False) -> pa.Table:
    times, values = ([random.randrange(most) for _ in range(rows)] for most in (span, 3))
    return pa.table([times, keys(random, rows, nulls), values], schema=ROWS)


def some_groups(random: Random) -> Directory:
    """One site with groups of any size."""
    directory = uniform(1, 4)
    for _ in range(random.choice([0, 3, 12])):
        directory = directory.split(random.choice([group for group in directory.groups if group.depth < 9]))
    return directory


class Counting:
    """Counts of the result rows by the groups of a directory, to compare with those of the hashes of results."""

    def __init__(self, random: Random) -> None:
        self._directory = some_groups(random)
        self.output = OutputByGroup(SiteBorders.of(self._directory, 0))

    def assert_counted(self, hashes: Words) -> None:
        places = np.searchsorted(self._directory.lows, hashes, side="right") - 1
        assert self.output.total.tolist() == np.bincount(places, minlength=len(self._directory.groups)).tolist()


def hashes_of_results(tables: Sequence[pa.Table], names: Sequence[str], bits: int) -> Words:
    parts = [hash_columns([table[name] for name in names], bits, length=table.num_rows) for table in tables]
    return np.concatenate([np.zeros(0, np.uint64), *parts])


def side(port: int) -> pa.Schema:
    return pa.schema([(f"{name}{port}", pa.int64()) for name in ("t", "k", "v")])


def band_join(kind: str, inputs: int, bits: int, condition: Expr | None) -> BandJoin:
    ports = range(inputs)
    bands = tuple(Band(port - 1, port, 6, 9) for port in ports[1:])
    names = tuple(tuple(side(port).names) for port in ports)
    by_key, times = tuple((f"k{port}",) for port in ports), tuple(f"t{port}" for port in ports)
    return BandJoin(kind, tuple(map(side, ports)), by_key, times, names, bands, condition, bits)


def check_join(join: BandJoin, random: Random) -> None:
    inputs = [rows_of(random, 60, nulls=True).rename_columns(side(port).names) for port in range(join.ports)]
    counting = Counting(random)
    found = run_join(join, inputs, random, random.choice([0, 10]), counts=counting.output)
    of_rows = [pc.coalesce(*(found[name] for name in ("k0", "k1") if name in found.column_names))]
    counting.assert_counted(hash_columns(of_rows, join.hash_bits, length=found.num_rows))


@pytest.fixture(params=[False, True], ids=["", "small blocks"])
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param:
        for module, names in {
            join_match: ("_BLOCK", "_ROWS"), join_search: ("_PROBES", "_PAIRS"), join_work: ("_ROWS",),
            windows: ("BLOCK_WINDOWS",), lateness: ("BLOCK_WINDOWS",),
        }.items():  # fmt: skip
            for name in names:
                monkeypatch.setattr(module, name, 5)


@BITS
@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("condition", [None, Call("<=", (Column("v0"), Column("v1")))], ids=["all", "some"])
@pytest.mark.parametrize("kind", ["inner", "left", "right", "full", "semi", "anti"])
def test_joins(kind: str, condition: Expr | None, bits: int, random: Random) -> None:
    check_join(band_join(kind, 2, bits, condition), random)


@BITS
@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("inputs", [3, 4])
def test_joins_of_many(inputs: int, bits: int, random: Random) -> None:
    check_join(band_join("inner", inputs, bits, Call("<=", (Column("v0"), Column("v2")))), random)


def streamed(operator: Operator, rows: pa.Table, times: Sequence[str], random: Random) -> tuple[pa.Table, Counting]:
    """All results of an operator that closes, over rows in order of time, with what it has counted."""
    counting = Counting(random)
    driver = ClosingDriver(operator, random, counts=counting.output)
    ordered = rows.sort_by(times[0])
    for start in range(0, rows.num_rows, 15):
        left = ordered.slice(start + 15)
        mark: Mark = at(left[times[0]][0].as_py()) if left.num_rows else END
        driver.epoch(ordered.slice(start, 15), (mark,) * operator.tracks)
    driver.epoch(rows.slice(0, 0), (END,) * operator.tracks, lag=0)
    return driver.all_results(), counting


WINDOWS = [Window("ts", 10, 10), Window("ts", 10, 3), Window("ts", 9, 3), Window("ts", 4, 10), Window("ts", 30, 1)]


@BITS
@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_windows(window: Window, bits: int, random: Random) -> None:
    operator = WindowAggregate(("k",), window, COUNT, ROWS, bits)
    found, counting = streamed(operator, rows_of(random, 120, nulls=True), ["ts"], random)
    counting.assert_counted(hashes_of_results([found], ["k"], bits))


@BITS
@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_windows_that_late_rows_have_missed(window: Window, bits: int, random: Random) -> None:
    operator, rows = WindowAggregate(("k",), window, COUNT, ROWS, bits, takes_late=True), rows_of(random, 120)
    first, last = window.starts_of(rows["ts"].to_numpy())
    of_row = (last - first) // window.slide + 1
    missed = np.asarray([random.choice([0, 0, 0, random.randint(0, max(0, most - 1))]) for most in of_row.tolist()])
    rows = rows.append_column(MISSED, pa.array(missed.astype(np.int32)))
    counting = Counting(random)
    driver = ClosingDriver(operator, random, counts=counting.output)
    driver.epoch(rows, (BEGIN,))
    driver.epoch(rows.slice(0, 0), (END,), lag=0)
    counting.assert_counted(hashes_of_results(driver.results, ["k"], bits))


@BITS
def test_sessions(bits: int, random: Random) -> None:
    operator = SessionAggregate(("k",), Session("ts", 3), COUNT, ROWS, bits)
    found, counting = streamed(operator, rows_of(random, 120, span=150, nulls=True), ["ts"], random)
    counting.assert_counted(hashes_of_results([found], ["k"], bits))


@BITS
def test_equal_times(bits: int, random: Random) -> None:
    operator = EqualTimesAggregate(("k",), ("ts", "v"), (0, None), COUNT, ROWS, bits)
    found, counting = streamed(operator, rows_of(random, 120, nulls=True), ["ts", "v"], random)
    counting.assert_counted(hashes_of_results([found], ["k", "ts", "v"], bits))


ROW_OPERATORS: dict[str, tuple[Callable[[int], Operator], list[str]]] = {
    "distinct": (lambda bits: DistinctRows("ts", ROWS, bits), ["ts", "k", "v"]),
    "in order": (lambda bits: Reorder("ts", ROWS, ("k",), bits), ["k"]),
    "top": (
        lambda bits: TopRows(("k",), "ts", (OrderColumn("v", True, True),), 2, "n", ("ts", "k", "v"), ROWS, bits),
        ["k", "ts"],
    ),
    "top of all": (
        lambda bits: TopRows(("k",), None, (OrderColumn("v", False, True),), 2, None, ("k", "v", "ts"), ROWS, bits),
        ["k"],
    ),
}


@BITS
@pytest.mark.parametrize("name", ROW_OPERATORS)
def test_operators_of_rows(name: str, bits: int, random: Random) -> None:
    make, key = ROW_OPERATORS[name]
    counting, rows = Counting(random), rows_of(random, 120, nulls=True)
    found = OperatorRun(make(bits), "ts", random, counting.output).run(rows)
    counting.assert_counted(hashes_of_results(found, key, bits))


def test_all_rows_in_order_have_one_group(random: Random) -> None:
    counting, rows = Counting(random), rows_of(random, 60)
    OperatorRun(Reorder("ts", ROWS), "ts", random, counting.output).run(rows)
    counting.assert_counted(np.zeros(60, np.uint64))


def joined(
    join: GridJoin | LastRowsJoin, inputs: tuple[pa.Table, pa.Table], random: Random
) -> tuple[pa.Table, Counting]:
    counting = Counting(random)
    driver = Driver(join, inputs, join.times, random, 6, counts=counting.output)
    driver.run()
    return pa.concat_tables([join.result_schema.empty_table(), *driver.results]), counting


@pytest.mark.parametrize("condition", [None, Call("<=", (Column("v0"), Column("v1")))], ids=["all", "some"])
@pytest.mark.parametrize("grid", [(1, 1), (2, 3), (4, 4)])
def test_theta_joins(grid: tuple[int, int], condition: Expr | None, random: Random) -> None:
    inputs = tuple(rows_of(random, 50).rename_columns(side(port).names) for port in (0, 1))
    names = tuple(tuple(side(port).names) for port in (0, 1))
    join = GridJoin((side(0), side(1)), ("t0", "t1"), names, (Band(0, 1, 5, 5),), condition, grid)
    found, counting = joined(join, (inputs[0], inputs[1]), random)
    row, column = (lanes_of(codes_of(found.select(names[port])), grid[port]) for port in (0, 1))
    counting.assert_counted(join.cells.hashes[row * grid[1] + column])


@pytest.mark.parametrize("cells", [1, 6])
def test_joins_with_the_last_rows(cells: int, random: Random) -> None:
    """A pair belongs to the cell in which the later of its rows looks for partners."""
    numbers = [pa.array(random.sample(range(50), 50), pa.int64()) for _ in range(2)]
    inputs = [
        rows_of(random, 50).rename_columns(side(port).names).append_column("#row", n) for port, n in enumerate(numbers)
    ]
    names = tuple(tuple(side(port).names) for port in (0, 1))
    join = LastRowsJoin((inputs[0].schema, inputs[1].schema), ("t0", "t1"), names, (4, 7), None, (1, cells))
    found, counting = joined(join, (inputs[0], inputs[1]), random)
    lanes = [lanes_of(codes_of(found.select(names[port])), cells) for port in (0, 1)]
    first_is_later = pc.greater(found["t0"], found["t1"]).to_numpy()
    counting.assert_counted(join.cells.hashes[np.where(first_is_later, lanes[0], lanes[1])])
