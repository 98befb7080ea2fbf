"""The theta join over the last rows, against DuckDB in batch."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest
from theta_case import Driver, Rows, in_batch

from penstock.errors import QueryError
from penstock.expr.text import text
from penstock.expr.tree import Call, Column, Expr, Literal
from penstock.operators.arrange import times_of
from penstock.operators.protocol import Portion, Stored
from penstock.operators.theta_join import pairs as theta_pairs
from penstock.operators.theta_join.last_rows import LastRowsJoin
from penstock.progress.mark import BEGIN, END, MAX_TIME, MIN_TIME, Marks, at

LEFT = pa.schema([("ta", pa.int64()), ("x", pa.int64()), ("#row", pa.int64())])
RIGHT = pa.schema([("tb", pa.int64()), ("y", pa.int64()), ("#row", pa.int64())])
CONDITIONS: dict[str, Expr | None] = {
    "none": None,
    "less": Call("<", (Column("x"), Column("y"))),
    "sum": Call(">", (Call("+", (Column("x"), Column("y"))), Literal(5))),
}


def rows(random: Random, schema: pa.Schema, count: int, span: int, origin: int = 0) -> pa.Table:
    times = [origin + random.randrange(span) for _ in range(count)]
    values = [random.choice([None, *range(6)]) for _ in range(count)]
    return pa.table([times, values, random.sample(range(count), count)], schema=schema)


def rows_join(last_rows: tuple[int, int], condition: Expr | None = None) -> LastRowsJoin:
    return LastRowsJoin((LEFT, RIGHT), ("ta", "tb"), (("ta", "x"), ("tb", "y")), last_rows, condition)


def expected(join: LastRowsJoin, left: pa.Table, right: pa.Table) -> Rows:
    """Straight from the definition: how many rows come before, and which place a row has among those of its input."""
    condition = "true" if join.condition is None else text(join.condition)
    return in_batch(
        f"""
        WITH a AS (SELECT *, row_number() OVER (ORDER BY ta, "#row") AS place,
                          (SELECT count(*) FROM right_rows WHERE tb < ta) AS before FROM left_rows),
             b AS (SELECT *, row_number() OVER (ORDER BY tb, "#row") AS place,
                          (SELECT count(*) FROM left_rows WHERE ta <= tb) AS before FROM right_rows)
        SELECT ta, x, tb, y FROM a, b
        WHERE ((a.place <= b.before AND a.place > b.before - {join.last_rows[0]})
            OR (b.place <= a.before AND b.place > a.before - {join.last_rows[1]})) AND ({condition})
        """,
        left,
        right,
    )


def check(join: LastRowsJoin, left: pa.Table, right: pa.Table, random: Random, slack: int = 6) -> None:
    found = Driver(join, (left, right), join.times, random, slack).run()
    assert found == expected(join, left, right)


@pytest.mark.parametrize("condition", CONDITIONS.values(), ids=CONDITIONS.keys())
@pytest.mark.parametrize("last_rows", [(1, 1), (3, 5), (0, 4), (100, 2), (1000, 1000), (0, 0)])
def test_any_cut(last_rows: tuple[int, int], condition: Expr | None, random: Random) -> None:
    for span in (1, 12, 80):
        left, right = rows(random, LEFT, 60, span), rows(random, RIGHT, 45, span)
        check(rows_join(last_rows, condition), left, right, random)


def test_small_blocks(monkeypatch: pytest.MonkeyPatch, random: Random) -> None:
    monkeypatch.setattr(theta_pairs, "_PARTNERS", 7)
    monkeypatch.setattr(theta_pairs, "_PAIRS", 20)
    for condition in CONDITIONS.values():
        check(rows_join((20, 9), condition), rows(random, LEFT, 90, 50), rows(random, RIGHT, 80, 50), random)


def test_an_input_without_rows(random: Random) -> None:
    check(rows_join((3, 3)), rows(random, LEFT, 20, 9), RIGHT.empty_table(), random)
    check(rows_join((3, 3)), LEFT.empty_table(), rows(random, RIGHT, 20, 9), random)


@pytest.mark.parametrize("origin", [MIN_TIME, MAX_TIME - 5])
def test_times_at_the_limits(origin: int, random: Random) -> None:
    left, right = rows(random, LEFT, 30, 6, origin), rows(random, RIGHT, 30, 6, origin)
    check(rows_join((4, 6)), left, right, random, slack=0)


def stored(*tables: pa.Table) -> list[Stored]:
    return [Stored(t, int(times_of(t).min()), int(times_of(t).max())) for t in tables if t.num_rows]


def test_what_is_joined_is_carried_on_and_the_rest_expires() -> None:
    """However far the marks move, no more than the last rows are carried."""
    join = rows_join((3, 2))
    left = join.prepare(0, pa.table([range(100), range(100), range(100)], schema=LEFT))
    right = join.prepare(1, pa.table([range(100), range(100), range(100)], schema=RIGHT))
    state: list[list[pa.Table]] = [[left], [right]]
    after: Marks = (BEGIN, BEGIN)
    for time in (50, 60, 61, 200):
        upto = (at(time), at(time + 7))
        done = join.work(Portion(tuple(stored(*tables) for tables in state), (left, right), after, upto))
        assert [kept.num_rows for kept in done.keep] == [3, 2]
        assert {join.expired_below(port, upto) for port in (0, 1)} == {time}
        assert {t for kept in done.keep for t in times_of(kept).tolist()} == {time}
        state = [[*tables, kept] for tables, kept in zip(state, done.keep, strict=True)]
        after = upto
    assert done.keep[0].column("ta").to_pylist() == [97, 98, 99]


def test_nothing_is_carried_past_the_end() -> None:
    join = rows_join((3, 3))
    left = join.prepare(0, pa.table([[1], [1], [0]], schema=LEFT))
    done = join.work(Portion((stored(left), []), (left, left), (BEGIN, BEGIN), (END, END)))
    assert [kept.num_rows for kept in done.keep] == [0, 0]


def test_work_that_brings_nothing_forward_carries_nothing() -> None:
    join = rows_join((3, 3))
    left = join.prepare(0, pa.table([[1], [1], [0]], schema=LEFT))
    done = join.work(Portion((stored(left), []), (left, left), (at(5), at(5)), (at(9), at(5))))
    assert list(done.results) == []
    assert [kept.num_rows for kept in done.keep] == [0, 0]


def test_when_work_is_due() -> None:
    join = rows_join((1, 1))
    assert join.due((at(1), at(5)), (at(2), at(5)), (None, 7))
    assert not join.due((at(1), at(5)), (at(2), at(5)), (None, None))
    assert not join.due((at(1), at(5)), (at(1), at(9)), (1, 1))


def test_marks() -> None:
    """A pair to come may have a partner of any age, so only the joint bound moves."""
    join = rows_join((1, 1))
    assert join.output_times == ("ta", "tb", "", "")
    assert join.output_marks((at(5), at(9))) == (BEGIN, BEGIN, at(5), at(5))
    assert join.output_marks((END, at(9))) == (BEGIN, BEGIN, at(9), at(9))
    assert join.output_marks((END, END)) == (END, END, END, END)


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"last_rows": (1, -1)}, "a negative number of rows"),
        ({"schemas": (LEFT, RIGHT.remove(2))}, "unknown column `#row`"),
        ({"condition": Column("x")}, "not BOOLEAN"),
    ],
)
def test_what_cannot_be_joined_is_refused(change: dict[str, Any], wanted: str) -> None:
    fields: dict[str, Any] = {
        "schemas": (LEFT, RIGHT), "times": ("ta", "tb"), "payload": (("ta",), ("tb",)), "last_rows": (1, 1),
        "condition": None,
    }  # fmt: skip
    with pytest.raises(QueryError, match=wanted):
        LastRowsJoin(**{**fields, **change})
