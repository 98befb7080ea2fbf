"""The nodes that streams in Python build, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.errors import QueryError
from penstock.expr.tree import Call, Cast, Column, Literal, Named
from penstock.operators.bands import Band
from penstock.operators.window.kinds import EqualTimes, RowWindow, Session
from penstock.operators.window.windows import Window
from penstock.plan.logical import (
    Aggregate,
    Aggregation,
    AssignWindows,
    Distinct,
    Filter,
    InOrder,
    Join,
    MapBatches,
    Order,
    Project,
    SplitRows,
    TopN,
    Union,
)

SECOND = 1_000_000
SCHEMA = pa.schema([("ts", pa.timestamp("us")), ("k", pa.int64()), ("s", pa.string()), ("i", pa.int32())])
A = ps.read.table(SCHEMA.empty_table(), time="ts", name="a")
B = ps.read.table(SCHEMA.empty_table(), time="ts", name="b")
C = ps.read.table(SCHEMA.empty_table(), time="ts", name="c")
WINDOWED = A.windowed(ps.tumbling("10s"))
COUNTED = A.group_by("k").window(ps.tumbling("10s")).agg(n=ps.count())
TIMELESS = A.select("k")
NAMES = (("ts", "k", "s", "i"), ("right_ts", "right_k", "right_s", "right_i"))
BOTH_TIMES = ("ts", "ts")
K = (Column("k"),)


def same(table: pa.Table) -> pa.Table:
    return table


def band(before: int, after: int) -> tuple[Band, ...]:
    return (Band(0, 1, before, after),)


def test_split_gives_one_stream_more_than_conditions() -> None:
    predicates = (Call(">", (Column("k"), Literal(1))), Column("x"))
    with pytest.raises(QueryError, match="unknown column `x`"):
        A.split(ps.col("k") > 1, "x")
    outputs = A.split(ps.col("k") > 1, ps.col("s") == "x")
    assert outputs[0].node == SplitRows(A.node, (predicates[0], Call("=", (Column("s"), Literal("x")))), 0)
    assert [o.node.output for o in outputs if isinstance(o.node, SplitRows)] == [0, 1, 2]


def test_union_goes_by_position_and_casts_to_common_types() -> None:
    assert A.union(B, A).node == Union((A.node, B.node, A.node))
    narrow, wide = A.select("ts", "i"), B.select("ts", "k")
    cast = Project(narrow.node, (Named("ts", Column("ts")), Named("i", Cast(Column("i"), "BIGINT"))))
    united = narrow.union(wide)
    assert united.node == Union((cast, wide.node))
    assert united.schema == pa.schema([("ts", pa.timestamp("us")), ("i", pa.int64())])
    assert united.times == ("ts",)


def test_map_batches_keeps_the_time_if_the_schema_has_it() -> None:
    node = A.map_batches(same, {"ts": "TIMESTAMP", "word": "TEXT"}).node
    assert isinstance(node, MapBatches)
    assert (node.function.name, node.time) == (f"{same.__module__}.same", "ts")
    assert node.schema == pa.schema([("ts", pa.timestamp("us")), ("word", pa.string())])
    assert A.map_batches(same, pa.schema([("word", pa.large_string())])).times == ()
    assert A.map_batches(same, {"at": "TIMESTAMP"}, time="at").times == ("at",)
    assert A.map_batches(same, SCHEMA, time=None).times == ()


def test_a_function_without_a_name_needs_one() -> None:
    with pytest.raises(QueryError, match="needs a name"):
        A.map_batches(partial(same), SCHEMA)
    node = A.map_batches(partial(same), SCHEMA, name="same").node
    assert isinstance(node, MapBatches)
    assert node.function.name == "same"


def test_distinct_and_order_go_by_a_time() -> None:
    assert A.distinct().node == Distinct(A.node, "ts")
    assert WINDOWED.distinct(time="window_end").node == Distinct(WINDOWED.node, "window_end")
    assert A.in_order().node == InOrder(A.node, "ts")


def test_windowed_rows() -> None:
    assert WINDOWED.node == AssignWindows(A.node, Window("ts", 10 * SECOND, 10 * SECOND))
    assert WINDOWED.times == ("window_start", "window_end", "ts")


def test_top_is_per_window_where_there_are_windows() -> None:
    by = (Order(Column("i"), descending=True),)
    assert WINDOWED.top(3, ps.desc("i"), keys=["k"]).node == TopN(WINDOWED.node, K, "window_start", by, 3, None)
    assert A.top(3, "i").node == TopN(A.node, (), "ts", (Order(Column("i")),), 3, None)
    several = ["i", ps.desc(ps.col("k") + 1, nulls_first=True)]
    order = (Order(Column("i")), Order(Call("+", (Column("k"), Literal(1))), True, True))
    assert A.top(1, several, per=None, number="rn").node == TopN(A.node, (), None, order, 1, "rn")


def test_keep_first_and_last_go_by_the_time_of_the_rows() -> None:
    first, last = (Order(Column("ts")),), (Order(Column("ts"), descending=True),)
    assert WINDOWED.keep_first("k").node == TopN(WINDOWED.node, K, "window_start", first, 1, None)
    assert A.keep_last("k", per=None).node == TopN(A.node, K, None, last, 1, None)


def test_join_by_a_span_either_way() -> None:
    node = A.join(B, "k", within="5s").node
    expected = Join((A.node, B.node), "inner", (K, K), BOTH_TIMES, band(5 * SECOND, 5 * SECOND), None, NAMES)
    assert node == expected


@pytest.mark.parametrize(
    ("within", "bands"),
    [(("1s", "2s"), band(SECOND, 2 * SECOND)), (("0s", "-5us"), band(0, -5)), (0, band(0, 0)), (None, ())],
)
def test_the_bands_of_a_join(within: Any, bands: tuple[Band, ...]) -> None:
    node = A.join(B, "k", within=within, kind="left").node
    assert isinstance(node, Join)
    assert (node.bands, node.kind) == (bands, "left")


@pytest.mark.parametrize(
    ("on", "left", "right"),
    [
        (["k", "s"], (Column("k"), Column("s")), (Column("k"), Column("s"))),
        (("k", ps.col("k") % 5), (Column("k"),), (Call("%", (Column("k"), Literal(5))),)),
        ([("k", "i"), "s"], (Column("k"), Column("s")), (Cast(Column("i"), "BIGINT"), Column("s"))),
        (("i", "k"), (Cast(Column("i"), "BIGINT"),), (Column("k"),)),
        (ps.col("k") % 5, (Call("%", (Column("k"), Literal(5))),), (Call("%", (Column("k"), Literal(5))),)),
    ],
)
def test_the_keys_of_a_join(on: object, left: tuple[Any, ...], right: tuple[Any, ...]) -> None:
    node = A.join(B, on, within="1s").node
    assert isinstance(node, Join)
    assert node.keys == (left, right)


def test_a_join_of_windows_is_on_their_starts() -> None:
    node = WINDOWED.join(B.windowed(ps.tumbling("10s")), "k", within="window").node
    assert isinstance(node, Join)
    assert (node.times, node.bands) == (("window_start", "window_start"), band(0, 0))


def test_a_condition_uses_the_names_of_the_result() -> None:
    joined = A.join(B, "k", within="1s", kind="semi", where=ps.col("i") < ps.col("b_i"), prefix="b_")
    assert isinstance(joined.node, Join)
    assert joined.node.condition == Call("<", (Column("i"), Column("b_i")))
    assert joined.schema.names == SCHEMA.names


def test_names_that_are_taken_get_another() -> None:
    left = A.with_columns(right_k=ps.col("k"))
    node = left.join(B, "k", within="1s").node
    assert isinstance(node, Join)
    assert node.names[1] == ("right_ts", "right_k_2", "right_s", "right_i")


def test_a_join_goes_by_the_times_that_are_named() -> None:
    node = WINDOWED.join(B, "k", within="1s", times=("window_end", None)).node
    assert isinstance(node, Join)
    assert node.times == ("window_end", "ts")


def test_join_all_binds_every_later_stream_to_the_first() -> None:
    renamed = C.select("ts", "k", k_2=ps.col("s"))
    joined = ps.join_all([A, B, renamed], "k", within=("1s", "2s"))
    assert isinstance(joined.node, Join)
    assert joined.node.bands == (Band(0, 1, SECOND, 2 * SECOND), Band(0, 2, SECOND, 2 * SECOND))
    assert joined.node.keys == (K, K, K)
    assert joined.schema.names == [
        "ts", "k", "s", "i", "ts_2", "k_3", "s_2", "i_2", "ts_3", "k_4", "k_2",
    ]  # fmt: skip
    assert joined.times == ("ts", "ts_2", "ts_3")


def test_theta_joins_are_within_a_span_or_the_last_rows() -> None:
    condition = Call("<", (Column("k"), Column("right_k")))
    node = A.theta_join(B, ps.col("k") < ps.col("right_k"), within="1s").node
    expected = Join((A.node, B.node), "inner", ((), ()), BOTH_TIMES, band(SECOND, SECOND), condition, NAMES)
    assert node == expected
    last = A.theta_join(B, ps.col("k") < ps.col("right_k"), last_rows=3).node
    assert last == Join((A.node, B.node), "inner", ((), ()), BOTH_TIMES, (), condition, NAMES, (3, 3))


COUNT = (Aggregation("n", "count", None),)
NAMED_K = (Named("k", Column("k")),)


def test_sessions_show_both_borders_and_progress_by_their_end() -> None:
    sessions = A.group_by("k").window(ps.session("5m")).agg(n=ps.count())
    assert sessions.wide == Aggregate(A.node, NAMED_K, Session("ts", 300 * SECOND), COUNT)
    assert sessions.schema.names == ["k", "window_start", "window_end", "n"]
    assert sessions.times == ("window_end",)


def test_windows_of_rows() -> None:
    rows = A.where(ps.col("k") > 0).group_by("k").window(ps.rows(100, every=10)).agg(n=ps.count())
    assert isinstance(rows.node, Project)
    assert isinstance(rows.node.input, Aggregate)
    assert rows.node.input.window == RowWindow(100, 10)
    assert ps.rows(7) == RowWindow(7, 7)
    assert rows.schema.names == ["k", "window_start", "n"]


def test_groups_by_times() -> None:
    joined = A.join(B, "k", within="1s")
    both = joined.group_by("k").at("ts", "right_ts").agg(n=ps.count())
    assert both.wide == Aggregate(joined.node, NAMED_K, EqualTimes(("ts", "right_ts")), COUNT)
    assert both.schema.names == ["k", "ts", "right_ts", "n"]


def test_a_window_may_go_by_another_time() -> None:
    joined = A.join(B, "k", within="1s")
    by_right = joined.window(ps.tumbling("10s", time="right_ts")).agg(n=ps.count())
    assert isinstance(by_right.node, Project)
    assert isinstance(by_right.node.input, Aggregate)
    assert by_right.node.input.window == Window("right_ts", 10 * SECOND, 10 * SECOND)


def test_a_window_may_go_by_the_hidden_end_of_windows() -> None:
    again = COUNTED.window(ps.tumbling("1m", time="window_end")).agg(m=ps.max("n"))
    assert isinstance(again.node, Project)
    assert isinstance(again.node.input, Aggregate)
    assert again.node.input.window == Window("window_end", 60 * SECOND, 60 * SECOND)
    filtered = COUNTED.where(ps.col("n") > 1)
    assert isinstance(filtered.wide, Filter)


REFUSALS: list[tuple[str, Callable[[], object]]] = [
    ("distinct needs the time of the stream", lambda: TIMELESS.distinct()),
    ("an order needs the time of the stream", lambda: TIMELESS.in_order()),
    ("a window needs the time of the stream", lambda: TIMELESS.windowed(ps.tumbling("1s"))),
    ("only be assigned to windows of time", lambda: A.windowed(ps.session("1s"))),  # type: ignore[arg-type]
    ("a join needs the time of the stream", lambda: A.join(TIMELESS, "k", within="1s")),
    ("cannot go by `window_start`", lambda: A.join(B, "k", within="window")),
    ("cannot go by `right_ts`", lambda: A.window(ps.tumbling("1s", time="right_ts"))),
    ("types that cannot be compared", lambda: A.join(B, ("k", "s"), within="1s")),
    ("unknown column `x`", lambda: A.join(B, "x", within="1s")),
    ("one expression for each input", lambda: A.join(B, ("k", "i", "s"), within="1s")),
    ("is not a kind of join", lambda: A.join(B, "k", within="1s", kind="outer")),
    ("either a span of time or a number of rows", lambda: A.theta_join(B, ps.col("k") > 1)),
    ("either a span of time or a number of rows", lambda: A.theta_join(B, "k", within="1s", last_rows=3)),
    ("at least two streams", lambda: ps.join_all([A], "k", within="1s")),
    ("equally many columns", lambda: A.union(TIMELESS)),
    ("columns 2 of a union", lambda: A.select("ts", "k").union(B.select("ts", "s"))),
    ("a number of rows above zero", lambda: A.top(0, "k")),
    ("a top-n needs the time", lambda: TIMELESS.top(1, "k")),
    ("keep_first needs windows, or per=None", lambda: A.keep_first("k")),
    ("keep_last needs the time of each row", lambda: COUNTED.keep_last("k")),
    ("times that are different", lambda: A.group_by("ts").at("ts")),
    ("times that are different", lambda: A.group_by("k").at()),
    ("a group cannot go by `k`", lambda: A.group_by().at("k")),
    ("needs a window", lambda: A.group_by("k").agg(n=ps.count())),
    ("a window of rows needs the rows of one source", lambda: A.union(B).window(ps.rows(3)).agg(n=ps.count())),
    ("gap above zero", lambda: A.window(ps.session(0))),
]


@pytest.mark.parametrize(("message", "build"), REFUSALS)
def test_what_is_refused(message: str, build: Callable[[], object]) -> None:
    with pytest.raises(QueryError, match=message) as found:
        build()
    assert found.value.hint or found.value.detail
