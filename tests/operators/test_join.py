"""The band join against DuckDB in batch: all kinds, any order, any cut, any marks."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pyarrow as pa
import pytest
from join_case import batch_answer, multiset, run

from penstock.expr.tree import Call, Column, Expr, Literal
from penstock.operators.band_join import match as join_match
from penstock.operators.band_join import probes as join_search
from penstock.operators.band_join import work as join_work
from penstock.operators.band_join.join import BandJoin
from penstock.operators.bands import Band

INTEGER = pa.int64()
SQL_JOINS = {"inner": "JOIN", "left": "LEFT JOIN", "right": "RIGHT JOIN", "full": "FULL JOIN"}
KINDS = (*SQL_JOINS, "semi", "anti")
SMALLER: Expr = Call("<", (Column("v0"), Column("v1")))
BANDS = [(0, 0), (3, 5), (5, 0), (0, 4), (-2, 6), (6, -2), (-3, 2), (None, 4), (2, None), (None, None), (20, 20)]


def schema(port: int, key: pa.DataType) -> pa.Schema:
    return pa.schema([(f"k{port}", key), (f"t{port}", pa.int64()), (f"v{port}", pa.int32()), (f"w{port}", pa.string())])


def rows(random: Random, port: int, count: int, keys: list[object], key: pa.DataType, span: int) -> pa.Table:
    columns = [
        [random.choice(keys) for _ in range(count)],
        [random.randrange(-span // 2, span) for _ in range(count)],
        [random.choice([None, 0, 1, 2, 3]) for _ in range(count)],
        [random.choice([None, "a", "bc"]) for _ in range(count)],
    ]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema(port, key), strict=True)], schema(port, key))


def band_join(kind: str, bands: tuple[Band, ...], inputs: int = 2, key: pa.DataType = INTEGER) -> BandJoin:
    ports = range(inputs)
    schemas = tuple(schema(port, key) for port in ports)
    keys, times = tuple((f"k{port}",) for port in ports), tuple(f"t{port}" for port in ports)
    return BandJoin(kind, schemas, keys, times, tuple(tuple(s.names) for s in schemas), bands)


def on(join: BandJoin, condition: str) -> str:
    """What rows of r0, r1, ... must fulfil to belong together."""
    parts = [f"k0 = k{port}" for port in range(1, join.ports)]
    for b in join.bands:
        wide = f"t{b.right}::HUGEINT - t{b.left}::HUGEINT"
        parts += [] if b.before is None else [f"{wide} >= {-b.before}"]
        parts += [] if b.after is None else [f"{wide} <= {b.after}"]
    return " AND ".join([*parts, condition])


def query(join: BandJoin, condition: str = "true") -> str:
    columns = ", ".join(join.result_schema.names)
    if join.kind in ("semi", "anti"):
        test = "EXISTS" if join.kind == "semi" else "NOT EXISTS"
        return f"SELECT {columns} FROM r0 WHERE {test} (SELECT 1 FROM r1 WHERE {on(join, condition)})"
    if join.ports > 2:
        tables = ", ".join(f"r{port}" for port in range(join.ports))
        return f"SELECT {columns} FROM {tables} WHERE {on(join, condition)}"
    return f"SELECT {columns} FROM r0 {SQL_JOINS[join.kind]} r1 ON {on(join, condition)}"


def check(join: BandJoin, inputs: list[pa.Table], random: Random, condition: str = "true") -> None:
    found = run(join, inputs, random, jitter=random.choice([0, 3, 10, 100]), sites=random.choice([1, 2]))
    assert multiset(found) == multiset(batch_answer(query(join, condition), inputs))


@pytest.mark.parametrize("band", BANDS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_two_inputs(kind: str, band: tuple[int | None, int | None], random: Random) -> None:
    keys: list[object] = [None, *range(random.choice([1, 4, 12]))]
    inputs = [rows(random, port, random.randrange(120), keys, INTEGER, 60) for port in (0, 1)]
    join = replace(band_join(kind, (Band(0, 1, *band),)), hash_bits=random.choice([64, 8, 0]))
    check(join, inputs, random)


@pytest.mark.parametrize("bits", [64, 8, 0])
@pytest.mark.parametrize("kind", KINDS)
def test_a_condition_on_both_sides(kind: str, bits: int, random: Random) -> None:
    inputs = [rows(random, port, 120, [None, 1, 2, 3], INTEGER, 60) for port in (0, 1)]
    join = replace(band_join(kind, (Band(0, 1, 7, 4),)), condition=SMALLER, hash_bits=bits)
    check(join, inputs, random, "v0 < v1")


def chain_of(inputs: int, random: Random) -> tuple[Band, ...]:
    """Bands that connect the inputs, one of them perhaps around the circle."""
    widths = [(random.randint(-2, 6), random.randint(-1, 6)) for _ in range(inputs)]
    return tuple(Band(n, (n + 1) % inputs, *w) for n, w in enumerate(widths[: random.choice([inputs - 1, inputs])]))


@pytest.mark.parametrize("case", range(6))
@pytest.mark.parametrize("inputs", [3, 4])
def test_several_inputs(inputs: int, case: int, random: Random) -> None:
    tables = [rows(random, port, 70, [None, 1, 2, 3], INTEGER, 60) for port in range(inputs)]
    join = replace(band_join("inner", chain_of(inputs, random), inputs), hash_bits=[64, 8, 0][case % 3])
    check(join, tables, random)


def test_several_inputs_without_bands_and_with_a_condition(random: Random) -> None:
    tables = [rows(random, port, 25, [None, 1, 2], INTEGER, 60) for port in range(3)]
    uneven = Call("<", (Call("+", (Column("v0"), Column("v1"))), Column("v2")))
    join = replace(band_join("inner", (Band(0, 2, None, 30),), 3), condition=uneven)
    check(join, tables, random, "v0 + v1 < v2")


def test_a_band_between_two_inputs_bounds_a_third_through_the_other(random: Random) -> None:
    """Inputs 0 and 2 have no band of their own, and yet no row of either stays for ever."""
    join = band_join("inner", (Band(0, 1, 1, 2), Band(1, 2, 3, 4)), 3)
    assert [join.span(port) for port in range(3)] == [6, 4, 4]
    check(join, [rows(random, port, 80, [1, 2], INTEGER, 60) for port in range(3)], random)


KEYS: dict[pa.DataType, list[object]] = {
    pa.float64(): [None, 0.0, -0.0, float("nan"), -float("nan"), 1.5],
    pa.float32(): [None, 0.0, -0.0, float("nan"), 0.1],
    pa.string(): [None, "", "a", "b", "ab" * 40],
    pa.binary(): [None, b"", b"\x00", b"ab"],
    pa.bool_(): [None, True, False],
    pa.timestamp("us"): [None, -1, 0, 10**15],
    pa.date32(): [None, -1, 0, 20000],
    pa.decimal128(38, 2): [None, 0, 1, -1, 10**30],
    pa.int8(): [None, -128, 0, 127],
}


@pytest.mark.parametrize("key", KEYS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_keys_of_all_types(kind: str, key: pa.DataType, random: Random) -> None:
    inputs = [rows(random, port, 60, KEYS[key], key, 40) for port in (0, 1)]
    join = replace(band_join(kind, (Band(0, 1, 4, 4),), key=key), hash_bits=random.choice([64, 8, 0]))
    check(join, inputs, random)


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_of_several_columns_one_of_which_is_the_time(kind: str, random: Random) -> None:
    inputs = [rows(random, port, 150, [None, 1, 2], INTEGER, 12) for port in (0, 1)]
    keys = tuple((f"w{port}", f"t{port}") for port in (0, 1))
    join = replace(band_join(kind, (Band(0, 1, 5, 5),)), keys=keys, hash_bits=random.choice([64, 0]))
    found = run(join, inputs, random, jitter=10)
    sql = query(join).replace("k0 = k1", "w0 = w1 AND t0 = t1")
    assert multiset(found) == multiset(batch_answer(sql, inputs))


@pytest.mark.parametrize("kind", KINDS)
def test_columns_that_only_the_condition_needs(kind: str, random: Random) -> None:
    """Neither the times nor the columns of the condition stand in the result."""
    inputs = [rows(random, port, 100, [None, 1, 2, 3], INTEGER, 50) for port in (0, 1)]
    later: Expr = Call("and", (SMALLER, Call("<", (Column("t0"), Call("+", (Column("t1"), Literal(2)))))))
    join = replace(band_join(kind, (Band(0, 1, 6, 6),)), payload=(("w0",), ("w1",)), condition=later)
    assert not any(join.output_times)
    check(join, inputs, random, "v0 < v1 AND t0 < t1 + 2")


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_with_itself(kind: str, random: Random) -> None:
    one = rows(random, 0, 100, [None, 1, 2, 3], INTEGER, 30)
    inputs = [one, one.rename_columns(schema(1, pa.int64()).names)]
    for band in (Band(0, 1, 0, 0), Band(0, 1, 2, 2), Band(0, 1, -1, 3)):
        check(band_join(kind, (band,)), inputs, random)


@pytest.mark.parametrize("kind", KINDS)
def test_one_key_and_equal_times(kind: str, random: Random) -> None:
    """Everything is a candidate for everything."""
    inputs = [rows(random, port, 150, [7], INTEGER, 3) for port in (0, 1)]
    join = replace(band_join(kind, (Band(0, 1, 1, 0),)), condition=random.choice([None, SMALLER]))
    check(join, inputs, random, "true" if join.condition is None else "v0 < v1")


@pytest.mark.parametrize("empty", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_an_input_without_rows(kind: str, empty: int, random: Random) -> None:
    inputs = [rows(random, port, 0 if port == empty else 50, [None, 1, 2], INTEGER, 30) for port in (0, 1)]
    check(band_join(kind, (Band(0, 1, 2, 3),)), inputs, random)


LIMITS = [-(2**63), -(2**63) + 1, -(2**63) + 7, -(2**62), -1, 0, 5, 2**62, 2**63 - 8, 2**63 - 2, 2**63 - 1]
WIDE = [
    (2, 3),
    (-2, 3),
    (3, -2),
    (2**63 - 1, 1),
    (2**64, 2**64),
    (-(2**63), 2**63 + 7),
    (2**63 + 7, -(2**63)),
    (0, 2**70),
]


@pytest.mark.parametrize("band", WIDE, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_times_at_the_limits(kind: str, band: tuple[int, int], random: Random) -> None:
    inputs = [rows(random, port, 40, [1, 2], INTEGER, 30) for port in (0, 1)]
    for port, table in enumerate(inputs):
        times = pa.array([random.choice(LIMITS) for _ in range(40)], pa.int64())
        inputs[port] = table.set_column(1, f"t{port}", times)
    check(band_join(kind, (Band(0, 1, *band),)), inputs, random)


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_of_a_few_pairs(kind: str, random: Random, monkeypatch: pytest.MonkeyPatch) -> None:
    """Borders between blocks lie anywhere, also inside the partners of one row."""
    for module, name in (
        (join_search, "_PROBES"),
        (join_search, "_PAIRS"),
        (join_match, "_ROWS"),
        (join_work, "_ROWS"),
    ):
        monkeypatch.setattr(module, name, random.choice([1, 2, 7]))
    inputs = [rows(random, port, 40, [None, 1, 2, 3], INTEGER, 30) for port in (0, 1, 2)]
    check(band_join(kind, (Band(0, 1, 9, 9),)), inputs[:2], random)
    if kind == "inner":
        check(band_join(kind, (Band(0, 1, 2, 2), Band(1, 2, 2, 2)), 3), inputs, random)
