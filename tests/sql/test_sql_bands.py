"""Bounds on times, in all the ways they can be written."""

from __future__ import annotations

import pytest
from sql_case import MINUTE, SECOND, pointed_at
from stream_case import joined, refused

from penstock.expr.tree import Call, Column, Literal
from penstock.operators.bands import Band


@pytest.mark.parametrize(
    ("on", "before", "after"),
    [
        ("b.ts BETWEEN a.ts - INTERVAL '5' SECOND AND a.ts + INTERVAL '7' SECOND", 5 * SECOND, 7 * SECOND),
        ("a.ts BETWEEN b.ts - INTERVAL '7' SECOND AND b.ts + INTERVAL '5' SECOND", 5 * SECOND, 7 * SECOND),
        ("b.ts >= a.ts - INTERVAL 5 SECOND AND b.ts <= a.ts + INTERVAL 7 SECOND", 5 * SECOND, 7 * SECOND),
        ("a.ts - INTERVAL 5 SECOND <= b.ts AND a.ts + INTERVAL 7 SECOND >= b.ts", 5 * SECOND, 7 * SECOND),
        ("b.ts > a.ts - INTERVAL 5 SECOND AND b.ts < a.ts + INTERVAL 7 SECOND", 5 * SECOND - 1, 7 * SECOND - 1),
        ("a.ts < b.ts AND b.ts - INTERVAL 1 MINUTE < a.ts", -1, MINUTE - 1),
        ("b.ts - a.ts <= INTERVAL 7 SECOND AND a.ts - b.ts <= INTERVAL 5 SECOND", 5 * SECOND, 7 * SECOND),
        ("INTERVAL 7 SECOND >= b.ts - a.ts AND -INTERVAL 5 SECOND <= b.ts - a.ts", 5 * SECOND, 7 * SECOND),
        ("b.ts - a.ts BETWEEN INTERVAL 1 SECOND AND INTERVAL 2 SECOND", -SECOND, 2 * SECOND),
        ("a.ts + 2 * INTERVAL 1 SECOND >= b.ts AND b.ts >= a.ts", 0, 2 * SECOND),
        ("b.ts >= a.ts AND b.ts <= a.ts + INTERVAL 1 DAY AND b.ts < a.ts + INTERVAL 1 MINUTE", 0, MINUTE - 1),
        ("b.ts + INTERVAL 3 SECOND = a.ts + INTERVAL 1 SECOND", 2 * SECOND, -2 * SECOND),
        ("a.ts = b.ts", 0, 0),
        ("(b.ts) BETWEEN (a.ts - (INTERVAL 1 SECOND + INTERVAL 2 SECOND)) AND a.ts", 3 * SECOND, 0),
    ],
)
def test_bands(on: str, before: int, after: int) -> None:
    node = joined(f"SELECT * FROM a JOIN b ON a.k = b.k AND {on}")
    assert node.bands == (Band(0, 1, before, after),)
    assert node.times == ("ts", "ts")
    assert node.condition is None
    assert joined(f"SELECT * FROM a, b WHERE {on} AND a.k = b.k") == node


@pytest.mark.parametrize(
    ("where", "before", "after"),
    [
        ("m.n >= o.n - 5 and m.n <= o.n + 5", 5, 5),
        ("m.n > o.n - 5 and m.n - 3 < o.n", 2, 4),
        ("o.n - m.n BETWEEN 1 AND 9", -1, 9),
        ("m.n = o.n", 0, 0),
    ],
)
def test_bands_of_numbers(where: str, before: int, after: int) -> None:
    assert joined(f"SELECT * FROM m, o WHERE m.k = o.k AND {where}").bands == (Band(0, 1, before, after),)


def test_windows_on_the_inputs_are_a_band() -> None:
    node = joined("SELECT * FROM a [RANGE 3 MIN], b [WA ts, RANGE 2 MIN] WHERE a.k = b.k")
    assert node.bands == (Band(0, 1, 2 * MINUTE - 1, 3 * MINUTE - 1),)
    assert joined("SELECT * FROM a AS a [RANGE 3 MIN] JOIN b b [RANGE 2 MIN] ON a.k = b.k") == node
    narrower = joined("SELECT * FROM a [RANGE 3 MIN], b [RANGE 2 MIN] WHERE a.k = b.k AND b.ts <= a.ts")
    assert narrower.bands == (Band(0, 1, 2 * MINUTE - 1, 0),)


def test_half_of_a_between_that_is_no_bound_is_a_condition() -> None:
    node = joined("SELECT * FROM m JOIN o ON m.k = o.k AND o.n BETWEEN m.n AND 100 AND o.n < m.n + 5")
    assert node.bands == (Band(0, 1, 0, 4),)
    assert node.condition == Call("<=", (Column("o_n"), Literal(100)))


def test_a_between_without_bounds_stays_as_it_is() -> None:
    node = joined("SELECT * FROM a JOIN b ON a.ts = b.ts AND a.k = b.k AND a.v BETWEEN b.w AND b.j")
    assert node.condition == Call("between", (Column("v"), Column("w"), Column("j")))


def test_equal_buckets_are_a_key_and_bound_the_times() -> None:
    node = joined("SELECT * FROM m, o WHERE m.n // 10 = o.n // 10 AND m.k = o.k")
    bucket = Call("//", (Column("n"), Literal(10)))
    assert node.keys == ((bucket, Column("k")), (bucket, Column("k")))
    assert node.bands == (Band(0, 1, 18, 18),)  # -9 // 10 and 9 // 10 are both 0
    minutes = joined("SELECT * FROM a JOIN b ON date_trunc('minute', a.ts) = date_trunc('minute', b.ts)")
    assert minutes.bands == (Band(0, 1, MINUTE - 1, MINUTE - 1),)
    assert minutes.keys[0] == (Call("date_trunc", (Literal("minute"), Column("ts"))),)
    assert joined(
        "SELECT * FROM a JOIN b ON time_bucket(INTERVAL 1 MINUTE, a.ts) = time_bucket(INTERVAL 1 MINUTE, b.ts)"
    ).bands == (Band(0, 1, MINUTE - 1, MINUTE - 1),)


def test_buckets_of_different_sizes_bound_nothing() -> None:
    assert refused("SELECT * FROM m, o WHERE m.n // 10 = o.n // 20 AND m.k = o.k").what.endswith("no bound on time")
    assert refused("SELECT * FROM m, o WHERE m.n / 10 = o.n / 10 AND m.k = o.k").what.endswith("no bound on time")


@pytest.mark.parametrize(
    ("query", "what", "detail", "place"),
    [
        ("FROM a JOIN b ON a.k = b.k", "the join of `a` and `b` has no bound on time", "kept forever", "b ON"),
        (
            "FROM a JOIN b ON a.k = b.k AND a.ts <= b.ts",
            "the join of `a` and `b` has a bound on time on one side only",
            "rows of `a` would have to be kept forever for those of `b`",
            "b ON",
        ),
        (
            "FROM a, b WHERE a.k = b.k AND a.ts >= b.ts",
            "the join of `a` and `b` has a bound on time on one side only",
            "rows of `b` would have to be kept forever for those of `a`",
            "b WHERE",
        ),
        ("FROM a JOIN b ON a.k = b.k AND b.ts > a.ts AND b.ts < a.ts", "no times of `a` and `b` satisfy", "", "b ON"),
        ("FROM a JOIN m ON a.k = m.k AND a.ts = m.n", "the times of `a` and `m` are of different types", "", "m ON"),
        ("FROM a, b [RANGE 1 MIN] WHERE a.k = b.k", "the inputs of a join have different kinds of windows", "", "b ["),
        (
            "FROM a [RANGE 1 MIN SLIDE 1 SEC], b [RANGE 1 MIN] WHERE a.k = b.k",
            "the window of an input of a join has no",
            "",
            "a [",
        ),
        ("FROM a JOIN SESSION(b, ts, INTERVAL 1 MINUTE) ON a.k = b.k", "a session window cannot be joined", "", "SESS"),
        (
            "FROM (SELECT k FROM a) x JOIN b ON x.k = b.k AND b.ts > b.ts",
            "`x` cannot be joined: it has no time",
            "",
            "b ON",
        ),
    ],
)
def test_what_cannot_be_bounded_says_so(query: str, what: str, detail: str, place: str) -> None:
    raised = refused(f"SELECT * {query}")
    assert raised.what.startswith(what)
    assert detail in raised.detail
    assert pointed_at(raised).startswith(place)


def test_the_hint_writes_the_band() -> None:
    hint = refused("SELECT * FROM a AS x JOIN b ON x.k = b.k").hint
    assert "b.ts BETWEEN x.ts - INTERVAL '5' SECOND AND x.ts + INTERVAL '5' SECOND" in hint
    assert "within=None" in hint
    nested = refused("SELECT * FROM a JOIN b USING (k, ts) LEFT JOIN c ON b.j = c.j").hint
    assert "c.ts BETWEEN a.ts - INTERVAL '5' SECOND AND a.ts + INTERVAL '5' SECOND" in nested
    assert "o.n BETWEEN m.n - 5 AND m.n + 5" in refused("SELECT * FROM m JOIN o ON m.k = o.k").hint
