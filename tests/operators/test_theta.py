"""The theta join on a grid, against DuckDB in batch."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from theta_case import Driver, Rows, as_rows, in_batch

from penstock.errors import QueryError
from penstock.expr.text import text
from penstock.expr.tree import Call, Case, Cast, Column, Expr, Literal
from penstock.operators.arrange import hashes_of, times_of
from penstock.operators.bands import Band, leads
from penstock.operators.protocol import Portion
from penstock.operators.theta_join import pairs as theta_pairs
from penstock.operators.theta_join.join import GridJoin
from penstock.progress.mark import BEGIN, END, MAX_TIME, MIN_TIME, at
from penstock.state.grid import cell_hashes
from penstock.type_names import TIMESTAMP

LEFT = pa.schema([("ta", pa.int64()), ("x", pa.int64()), ("f", pa.float64()), ("s", pa.string()), ("la", TIMESTAMP)])
RIGHT = pa.schema([("tb", pa.int64()), ("y", pa.int32()), ("g", pa.float64()), ("z", pa.string()), ("lb", TIMESTAMP)])
WORDS = ["a", "b", "ab", "", "ä", None]
FLOATS = [0.0, -0.0, 1.5, -2.0, 1e300, float("nan"), float("inf"), float("-inf"), None]
GRIDS = [(1, 1), (1, 3), (2, 2), (3, 5)]
ANY = (None, None)


def call(function: str, *arguments: Expr | str) -> Call:
    """A call; a text among the arguments is a column."""
    return Call(function, tuple(Column(a) if isinstance(a, str) else a for a in arguments))


CONDITIONS: dict[str, Expr | None] = {
    "none": None,
    "less": call("<", "x", "y"),
    "at_most": call("<=", "y", "x"),
    "floats": call(">", "f", "g"),
    "floats_at_least": call(">=", "g", "f"),
    "mixed": call("<", "f", "y"),
    "equal_floats": call("=", "f", "g"),
    "texts": call(">=", "s", "z"),
    "stamps": call("<", "la", "lb"),
    "expressions": call("<", call("*", "x", Literal(2)), call("+", "y", Literal(1))),
    "two": call("and", call("<", "x", "y"), call("<=", "z", "s")),
    "between": call("between", "y", call("-", Cast(Column("x"), "INTEGER"), Literal(1)), Cast(Column("x"), "INTEGER")),
    "constant": call("and", call("<", "x", Literal(3)), call(">", "y", Literal(1))),
    "sum": call(">", call("+", "x", "y"), Literal(3)),
    "near": call("<", call("abs", call("-", "x", "y")), Literal(2)),
    "other": call("<>", "s", "z"),
    "either": call("or", call("<", "x", "y"), call("=", "s", "z")),
    "not": call("and", call("not", call("=", "x", "y")), call("<", "f", "g"), call("<>", "s", "z")),
    "case": Case(((call("<", "x", "y"), call("is_null", "s")),), call("is_not_null", "z")),
}


def rows(random: Random, schema: pa.Schema, count: int, span: int, origin: int = 0) -> pa.Table:
    columns: list[list[Any]] = [
        [origin + random.randrange(span) for _ in range(count)],
        [random.choice([None, *range(6)]) for _ in range(count)],
        [random.choice(FLOATS) for _ in range(count)],
        [random.choice(WORDS) for _ in range(count)],
        [random.choice([None, 0, 1, -1, 10**15]) for _ in range(count)],
    ]
    return pa.table([pa.array(c, type_) for c, type_ in zip(columns, schema.types, strict=True)], schema=schema)


def grid_join(condition: Expr | None, band: tuple[int | None, int | None], **others: Any) -> GridJoin:
    payload = (("ta", "x", "f", "s"), ("z", "tb", "g"))
    bands = () if band == ANY else (Band(0, 1, *band),)
    return GridJoin((LEFT, RIGHT), ("ta", "tb"), payload, bands, condition, **others)


def expected(join: GridJoin, left: pa.Table, right: pa.Table) -> Rows:
    (_, ahead), (behind, _) = leads(2, join.bands)
    conditions = ["true" if join.condition is None else text(join.condition).replace("CAST(", "TRY_CAST(")]
    conditions += [] if ahead is None else [f"tb::HUGEINT <= ta::HUGEINT + {ahead}"]
    conditions += [] if behind is None else [f"tb::HUGEINT >= ta::HUGEINT - {behind}"]
    names = ", ".join(join.result_schema.names)
    return in_batch(f"SELECT {names} FROM left_rows, right_rows WHERE ({') AND ('.join(conditions)})", left, right)


def check(join: GridJoin, left: pa.Table, right: pa.Table, random: Random, slack: int = 8) -> None:
    found = Driver(join, (left, right), join.times, random, slack).run()
    assert found == expected(join, left, right)


@pytest.fixture(params=[0, 4])
def sorting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small blocks, and comparisons decided by sorting always, or only where there are many pairs."""
    monkeypatch.setattr(theta_pairs, "_SORTING", request.param)
    monkeypatch.setattr(theta_pairs, "_PARTNERS", 15)
    monkeypatch.setattr(theta_pairs, "_PAIRS", 150)


@pytest.mark.usefixtures("sorting")
@pytest.mark.parametrize("condition", CONDITIONS.values(), ids=CONDITIONS.keys())
def test_any_condition(condition: Expr | None, random: Random) -> None:
    band, hash_bits = random.choice(((3, 5), ANY)), random.choice((64, 8, 0))
    join = grid_join(condition, band, grid=random.choice(GRIDS), hash_bits=hash_bits)
    check(join, rows(random, LEFT, 60, 40), rows(random, RIGHT, 50, 40), random)


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("band", [(0, 0), (0, 7), (7, 0), (-2, 5), (4, -4), (-3, 1), (None, 2), (2, None), ANY])
def test_bands_and_grids(grid: tuple[int, int], band: tuple[int | None, int | None], random: Random) -> None:
    condition, hash_bits = random.choice((None, CONDITIONS["less"])), random.choice((64, 8, 0))
    join = grid_join(condition, band, grid=grid, hash_bits=hash_bits)
    check(join, rows(random, LEFT, 40, 25), rows(random, RIGHT, 60, 25), random)


def test_many_pairs_take_the_usual_blocks(random: Random) -> None:
    left, right = rows(random, LEFT, 1500, 500), rows(random, RIGHT, 1500, 500)
    check(grid_join(CONDITIONS["two"], (40, 60)), left, right, random, slack=50)


def test_equal_rows_and_equal_times(random: Random) -> None:
    left = rows(random, LEFT, 3, 1).take(pa.array([0, 0, 1, 2, 2, 2]))
    right = rows(random, RIGHT, 2, 1).take(pa.array([0, 1, 1, 1]))
    check(grid_join(None, (0, 0), grid=(3, 5)), left, right, random)


def test_an_input_without_rows(random: Random) -> None:
    left, right = rows(random, LEFT, 20, 10), RIGHT.empty_table()
    check(grid_join(None, ANY), left, right, random)
    check(grid_join(CONDITIONS["less"], (1, 1)), LEFT.empty_table(), rows(random, RIGHT, 20, 10), random)


@pytest.mark.parametrize("origin", [MIN_TIME, MAX_TIME - 9])
@pytest.mark.parametrize(
    "band", [(3, 5), (-3, 5), (5, -3), (2**63 - 1, 0), (2**70, 2**70), (-(2**64), 2**65), (0, None)]
)
def test_times_at_the_limits(origin: int, band: tuple[int | None, int | None], random: Random) -> None:
    left, right = rows(random, LEFT, 30, 10, origin), rows(random, RIGHT, 30, 10, origin)
    check(grid_join(None, band), left, right, random, slack=0)


def test_times_far_apart(random: Random) -> None:
    left = pa.concat_tables([rows(random, LEFT, 10, 5, MIN_TIME), rows(random, LEFT, 10, 5, MAX_TIME - 4)])
    right = pa.concat_tables([rows(random, RIGHT, 10, 5, MIN_TIME), rows(random, RIGHT, 10, 5, MAX_TIME - 4)])
    for band in ((2, 3), (2**64 - 3, 0), (0, 2**64 - 6), (-(2**64) + 6, 2**64)):
        check(grid_join(None, band), left, right, random, slack=0)


def test_a_guarded_part_is_computed_only_behind_its_guard(random: Random) -> None:
    """The right side of the comparison cannot be computed for every row."""
    number = Cast(Column("s"), "BIGINT")
    condition = call("and", call("=", call("length", "s"), "y"), call("=", "y", Literal(1)), call("<", number, "tb"))
    left = rows(random, LEFT, 200, 10).set_column(3, "s", pa.array(random.choices(["1", "7", "none"], k=200)))
    check(grid_join(condition, ANY), left.cast(LEFT), rows(random, RIGHT, 100, 10), random)


def test_state_is_forgotten(random: Random) -> None:
    """A row lives until the other input has passed the end of its band, whatever its own input does."""
    join = grid_join(None, (50, 20))
    fresh = (join.prepare(0, rows(random, LEFT, 500, 1000)), join.prepare(1, rows(random, RIGHT, 500, 1000)))
    marks = (at(700), at(600))
    done = join.work(Portion(([], []), fresh, (BEGIN, BEGIN), marks))
    for port, bound in enumerate((580, 650)):
        assert join.expired_below(port, marks) == bound
        assert sorted(times_of(done.keep[port])) == sorted(t for t in times_of(fresh[port]) if t >= bound)
    assert join.expired_below(0, (at(7), END)) == MAX_TIME
    assert grid_join(None, ANY).expired_below(0, (at(7), at(100))) == MIN_TIME


def test_a_row_that_is_not_kept_meets_its_partners_first() -> None:
    join = grid_join(None, (5, 5), grid=(1, 1))
    left, right = join.prepare(0, rows(Random(1), LEFT, 1, 1)), join.prepare(1, rows(Random(1), RIGHT, 1, 1))
    done = join.work(Portion(([], []), (left, right), (BEGIN, BEGIN), (at(6), at(6))))
    assert [piece.num_rows for piece in done.results] == [1]
    assert [kept.num_rows for kept in done.keep] == [0, 0]
    done = join.work(Portion(([], []), (left, right), (BEGIN, BEGIN), (at(6), at(5))))
    assert [kept.num_rows for kept in done.keep] == [1, 0]


def test_nothing_is_kept_for_an_input_that_has_ended() -> None:
    """Not even a row at the largest time, below which all may lie."""
    join = grid_join(None, ANY, grid=(1, 1))
    left, right = (join.prepare(p, rows(Random(1), s, 1, 1, MAX_TIME)) for p, s in enumerate((LEFT, RIGHT)))
    done = join.work(Portion(([], []), (left, right), (BEGIN, BEGIN), (at(7), END)))
    assert [kept.num_rows for kept in done.keep] == [0, 1]


def test_marks() -> None:
    join = grid_join(None, (3, 5))
    assert join.output_times == ("ta", "tb", "", "")
    assert join.output_marks((at(100), at(100))) == (at(95), at(97), at(100), at(100))
    assert join.output_marks((END, at(100))) == (at(95), at(100), END, at(100))
    assert join.output_marks((at(100), END)) == (at(100), at(97), at(100), END)
    free = grid_join(None, ANY)
    assert free.output_marks((at(100), at(100))) == (BEGIN, BEGIN, at(100), at(100))
    assert free.output_marks((END, at(100))) == (BEGIN, at(100), END, at(100))
    assert replace(join, payload=(("x",), ("tb",))).output_times == ("", "tb", "", "")


@pytest.mark.parametrize("grid", GRIDS)
def test_each_row_is_in_one_lane_of_cells_and_each_pair_in_one_cell(grid: tuple[int, int], random: Random) -> None:
    join = grid_join(None, ANY, grid=grid)
    points = set(cell_hashes(grid).tolist())
    left, right = (join.prepare(p, rows(random, s, 300, 9)) for p, s in enumerate((LEFT, RIGHT)))
    assert (left.num_rows, right.num_rows) == (300 * grid[1], 300 * grid[0])
    assert set(hashes_of(left).tolist()) == set(hashes_of(right).tolist()) == points
    pairs = sum(int((hashes_of(left) == p).sum() * (hashes_of(right) == p).sum()) for p in points)
    assert pairs == 300 * 300


def test_a_row_read_again_goes_to_the_same_cells(random: Random) -> None:
    join, table = grid_join(None, ANY, grid=(3, 5)), rows(random, LEFT, 100, 9)
    again = table.take(pa.array(random.sample(range(100), 100)))
    assert as_rows(join.prepare(0, table)) == as_rows(join.prepare(0, again))


def test_an_inequality_writes_down_few_pairs(monkeypatch: pytest.MonkeyPatch, random: Random) -> None:
    """Of a million pairs within the band the comparison leaves a thousand; no more are written down where it is sorted.

    How many pairs are so few that nothing is sorted depends on the cuts of epochs, so the test sorts always.
    """
    written: list[int] = []
    candidates = theta_pairs._written

    def counted(*arguments: Any) -> np.ndarray[Any, Any]:
        found = candidates(*arguments)
        written.append(len(found))
        return found

    monkeypatch.setattr(theta_pairs, "_written", counted)
    monkeypatch.setattr(theta_pairs, "_SORTING", 0)
    left = rows(random, LEFT, 1000, 100).set_column(1, "x", pa.array(range(1000)))
    right = rows(random, RIGHT, 1000, 100).set_column(1, "y", pa.array([1] * 1000, pa.int32()))
    check(grid_join(call("<", "x", "y"), ANY, grid=(1, 1)), left, right, random)
    assert sum(written) == 1000


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"grid": (0, 2)}, "no cells"),
        ({"condition": call("+", "x", "y")}, "not BOOLEAN"),
        ({"condition": call("<", "x", "nowhere")}, "unknown column `nowhere`"),
        ({"times": ("ta", "z")}, "cannot use `z` as a time"),
        ({"payload": (("ta", "v"), ())}, "unknown column `v`"),
        ({"schemas": (LEFT, RIGHT.append(LEFT.field("x")))}, "both inputs of a join have a column `x`"),
    ],
)
def test_what_cannot_be_joined_is_refused(change: dict[str, Any], wanted: str) -> None:
    with pytest.raises(QueryError, match=wanted):
        replace(grid_join(None, ANY), **change)
