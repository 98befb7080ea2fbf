"""Columns that nobody reads are neither read from the source nor kept by a join."""

from __future__ import annotations

import pyarrow as pa

import penstock as ps
from penstock.operators.band_join.join import BandJoin
from penstock.operators.theta_join.join import GridJoin
from penstock.plan.compile.subqueries import compile_query
from penstock.plan.program import Program

ROWS = pa.schema([("ts", pa.timestamp("us")), ("k", pa.int64()), ("v", pa.float64()), ("s", pa.string())]).empty_table()


def stream(name: str) -> ps.Stream:
    return ps.read.table(ROWS, time="ts", name=name)


def program(query: ps.Stream) -> Program:
    return compile_query(query.to.files("out").sink).program


def test_a_join_keeps_what_its_consumer_reads() -> None:
    found = program(stream("a").join(stream("b"), on="k", within="1s").select("ts", "right_v"))
    assert [part.columns for part in found.inputs] == [("ts", "k"), ("ts", "k", "v")]
    join = found.subqueries[0].operator
    assert isinstance(join, BandJoin)
    assert [schema.names for schema in join.schemas] == [["ts", "k"], ["right_ts", "right_k", "right_v"]]
    assert join.payload == (("ts",), ("right_v",))


def test_what_only_the_condition_reads_is_kept_but_does_not_come_out() -> None:
    query = stream("a").join(stream("b"), on="k", within="1s", where=ps.col("s") < ps.col("right_s")).select("ts")
    join = program(query).subqueries[0].operator
    assert isinstance(join, BandJoin)
    assert join.result_schema.names == ["ts"]
    assert [schema.names for schema in join.schemas] == [["ts", "k", "s"], ["right_ts", "right_k", "right_s"]]


def test_a_count_over_a_join_still_has_a_column_to_count() -> None:
    pairs = stream("a").theta_join(stream("b"), ps.col("v") < ps.col("right_v"), within="1s")
    join = program(pairs.window(ps.tumbling("1m", time="right_ts")).agg(n=ps.count())).subqueries[0].operator
    assert isinstance(join, GridJoin)
    assert join.result_schema.names == ["right_ts"]


def test_the_time_of_an_outer_partner_is_not_needed() -> None:
    query = stream("a").join(stream("b"), on="k", within="1s", kind="semi").select("s")
    found = program(query)
    assert [part.columns for part in found.inputs] == [("ts", "k", "s"), ("ts", "k")]
    assert found.result_schema.names == ["s"]


def test_joins_of_joins_are_narrow_all_the_way_down() -> None:
    inner = stream("a").join(stream("b"), on="k", within="1s")
    outer = inner.join(stream("c").select("ts", "k", s2=ps.col("s")), on="k", within="1s", prefix="c_")
    found = program(outer.select("s2"))
    assert [part.columns for part in found.inputs] == [("ts", "k"), ("ts", "k"), ("ts", "k", "s")]
    assert [s.operator.result_schema.names for s in found.subqueries] == [["ts", "k"], ["s2"]]
