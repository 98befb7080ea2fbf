"""The queries Q1 to Q9 of the paper on out-of-order processing, as they are printed there, but for Q6: what is written
`/` there cuts off the rest of a division, as `//` does here."""

from __future__ import annotations

import pyarrow as pa
from sql_case import MINUTE, FakeConnector, parse
from stream_case import columns

from penstock.expr.tree import Call, Column, Literal, Named
from penstock.operators.bands import Band
from penstock.operators.window.kinds import EqualTimes
from penstock.operators.window.windows import Window
from penstock.plan.logical import Aggregate, Aggregation, Filter, Join, Node, Project, Source, Union
from penstock.progress.mark import Ordered

PACKET = ("srcIP", "srcPort", "destIP", "destPort", "flag")
NAMES = ("Control", "Main1", "Main2", "S0", "S1", "M", "M1", "M2", "A", "B", "C", "D")
COUNT = (Aggregation("count", "count", None),)
REVERSED = (("srcIP", "destIP"), ("destIP", "srcIP"), ("srcPort", "destPort"), ("destPort", "srcPort"))
MATCHING = " and ".join(f"{{0}}.{one} = {{1}}.{other}" for one, other in REVERSED)
TIMESTAMP = pa.timestamp("us")


def stream(name: str, time: pa.DataType = TIMESTAMP) -> Source:
    schema = pa.schema([*((column, pa.int64()) for column in PACKET), ("ts", time)])
    return Source(name, schema, "ts", Ordered(), FakeConnector("links", ()))


def planned(query: str, time: str = "TIMESTAMP") -> Node:
    packet = ", ".join(f"{column} BIGINT" for column in PACKET)
    declared = [
        f"CREATE SOURCE {name} ({packet}, ts {time}, WATERMARK FOR ts AS ts) WITH (connector = 'links');"
        for name in NAMES
    ]
    return parse("".join(declared) + query).queries[0][1]


def keys() -> tuple[tuple[Column, ...], tuple[Column, ...]]:
    return tuple(Column(one) for one, _ in REVERSED), tuple(Column(other) for _, other in REVERSED)


def names(second: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    own = (*PACKET, "ts")
    return own, tuple(f"{second}_{name}" for name in own)


def test_q1() -> None:
    node = planned("SELECT count (*) FROM Control union Main1 union Main2 [RANGE 1 minute, SLIDE 1 minute, WA ts]")
    union = Union((stream("Control"), stream("Main1"), stream("Main2")))
    assert node == Project(Aggregate(union, (), Window("ts", MINUTE, MINUTE), COUNT), columns("count"))


def test_q2() -> None:
    node = planned("""SELECT * FROM Main1 [WA ts, RANGE 3 min], Main2 [WA ts, RANGE 2 min]
                      WHERE Main1.srcIP = Main2.destIP;""")
    assert node == Join(
        (stream("Main1"), stream("Main2")),
        "inner",
        ((Column("srcIP"),), (Column("destIP"),)),
        ("ts", "ts"),
        (Band(0, 1, 2 * MINUTE - 1, 3 * MINUTE - 1),),
        None,
        names("Main2"),
    )


def test_q3() -> None:
    node = planned("""SELECT S0.ts, S1.ts, count(*) FROM S0 [WA ts, RANGE 2 min], S1 [WA ts, RANGE 2 min]
                      WHERE S0.destIP = S1.srcIP AND S0.destPort = S1.srcPort AND S0.flag = 1 AND S1.flag = 2
                        AND S0.ts < S1.ts
                      GROUP BY S0.ts, S1.ts;""")
    join = Join(
        tuple(Filter(stream(f"S{i}"), Call("=", (Column("flag"), Literal(i + 1)))) for i in (0, 1)),
        "inner",
        ((Column("destIP"), Column("destPort")), (Column("srcIP"), Column("srcPort"))),
        ("ts", "ts"),
        (Band(0, 1, -1, 2 * MINUTE - 1),),
        None,
        names("S1"),
    )
    assert node == Project(Aggregate(join, (), EqualTimes(("ts", "S1_ts")), COUNT), columns("ts", "S1_ts", "count"))


def test_q4() -> None:
    node = planned("SELECT srcIP, destIP, count(*) FROM M [WA ts, RANGE 1 min, SLIDE 1 min] GROUP BY srcIP, destIP")
    both = columns("srcIP", "destIP")
    grouped = Aggregate(stream("M"), both, Window("ts", MINUTE, MINUTE), COUNT)
    assert node == Project(grouped, (*both, *columns("count")))


def test_q5() -> None:
    query = "SELECT srcIP, destIP, count(*) FROM M1 UNION M2 [RANGE 1 min, SLIDE 1 min, WA ts] GROUP BY srcIP, destIP"
    both = columns("srcIP", "destIP")
    grouped = Aggregate(Union((stream("M1"), stream("M2"))), both, Window("ts", MINUTE, MINUTE), COUNT)
    assert planned(query) == Project(grouped, (*both, *columns("count")))


def test_q6() -> None:
    query = f"""SELECT M1.srcIP, M1.destIP, M1.ts FROM A UNION B as M1, C UNION D as M2
                WHERE M1.ts//10 = M2.ts//10 and {MATCHING.format("M1", "M2")}"""
    a, b, c, d = (stream(name, pa.int64()) for name in "ABCD")
    bucket = Call("//", (Column("ts"), Literal(10)))
    left, right = keys()
    join = Join(
        (Union((a, b)), Union((c, d))),
        "inner",
        ((bucket, *left), (bucket, *right)),
        ("ts", "ts"),
        (Band(0, 1, 18, 18),),
        None,
        names("M2"),
    )
    assert planned(query, "BIGINT") == Project(join, columns("srcIP", "destIP", "ts"))


def test_q7() -> None:
    query = f"""SELECT count(*) [RANGE 1 min, SLIDE 1 min, WA M1.ts] FROM M1, M2
                WHERE M1.ts >= M2.ts - INTERVAL 30 SECOND and M1.ts <= M2.ts + INTERVAL 30 SECOND
                  and {MATCHING.format("M1", "M2")}"""
    band = Band(0, 1, MINUTE // 2, MINUTE // 2)
    join = Join((stream("M1"), stream("M2")), "inner", keys(), ("ts", "ts"), (band,), None, names("M2"))
    assert planned(query) == Project(Aggregate(join, (), Window("ts", MINUTE, MINUTE), COUNT), columns("count"))


def test_q8() -> None:
    query = f"""SELECT M1.srcIP, M1.destIP, M1.ts FROM M1, M2 Union C as M3
                WHERE M1.ts = M3.ts and {MATCHING.format("M1", "M3")}"""
    inputs = stream("M1"), Union((stream("M2"), stream("C")))
    join = Join(inputs, "inner", keys(), ("ts", "ts"), (Band(0, 1, 0, 0),), None, names("M3"))
    assert planned(query) == Project(join, columns("srcIP", "destIP", "ts"))


def test_q9() -> None:
    node = planned("SELECT count(*) [RANGE 5 min, SLIDE 1 min, WA ts] FROM M1 UNION M2 UNION C")
    union = Union((stream("M1"), stream("M2"), stream("C")))
    assert node == Project(Aggregate(union, (), Window("ts", 5 * MINUTE, MINUTE), COUNT), columns("count"))


def test_the_columns_of_a_result_are_called_as_they_are_written() -> None:
    node = planned("SELECT M2.ts, M1.ts AS other FROM M1, M2 WHERE M1.ts = M2.ts")
    assert node.columns == (Named("ts", Column("M2_ts")), Named("other", Column("ts")))
