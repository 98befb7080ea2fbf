from __future__ import annotations

from typing import Any

import pyarrow as pa

import penstock as ps
from penstock.connectors.sinks.files import FilesSink
from penstock.expr.tree import Call, Column, Literal, Named
from penstock.plan.compile.subqueries import compile_query
from penstock.plan.fingerprint import fingerprint
from penstock.plan.logical import Sink
from penstock.plan.options import CompileOptions
from penstock.plan.program import ProjectStep

ROWS = pa.table(
    {"ts": pa.array([], pa.timestamp("us")), "k": pa.array([], pa.int64()), "unused": pa.array([], pa.string())}
)


def stream() -> ps.Stream:
    return ps.read.table(ROWS, time="ts")


def test_two_projections_become_one_where_nothing_is_computed_twice() -> None:
    lower = stream().select("ts", d=ps.col("k") + 1)
    (branch,) = compile_query(lower.select(e=ps.col("d") * 2).to.files("out").sink).program.inputs[0].branches
    assert branch.steps == (ProjectStep((Named("e", Call("*", (Call("+", (Column("k"), Literal(1))), Literal(2)))),)),)
    twice = lower.select(e=ps.col("d") * ps.col("d")).to.files("out").sink
    (branch,) = compile_query(twice).program.inputs[0].branches
    assert len(branch.steps) == 2


def test_only_the_columns_that_are_needed_are_read() -> None:
    query = stream().group_by("k").window(ps.tumbling("1s")).agg(n=ps.count()).to.files("out")
    assert compile_query(query.sink).program.inputs[0].columns == ("ts", "k")
    assert compile_query(stream().to.files("out").sink).program.inputs[0].columns == ("ts", "k", "unused")


def test_a_fingerprint_tells_queries_apart_and_knows_its_own() -> None:
    def of(size: str, path: str = "out", **options: Any) -> str:
        node = stream().group_by("k").window(ps.tumbling(size)).agg(n=ps.count()).node
        return fingerprint(Sink(node, FilesSink(path)), CompileOptions(**options))

    assert of("1s") == of("1s")
    assert len({of("1s"), of("2s"), of("1s", "elsewhere"), of("1s", hash_bits=8), of("1s", in_order=True)}) == 5


def test_aggregates_over_aggregates_are_two_subqueries() -> None:
    inner = stream().group_by("k").window(ps.tumbling("1s")).agg(n=ps.count())
    program = compile_query(inner.window(ps.tumbling("10s")).agg(m=ps.max("n")).to.files("out").sink).program
    assert [[b.target for b in s.branches] for s in program.subqueries] == [[1], [None]]
    assert [(feed.is_input, feed.producer) for feed in program.feeds(1)] == [(False, 0)]


def test_two_functions_of_one_name_are_two() -> None:
    schema = {"ts": "TIMESTAMP", "k": "BIGINT"}
    one, other = (stream().map_batches(function, schema) for function in (lambda t: t, lambda t: t.slice(0, 0)))
    (part,) = compile_query(one.union(other).to.files("out").sink).program.inputs
    assert [len(branch.steps) for branch in part.branches] == [1, 1]
    first, second = (branch.steps[0] for branch in part.branches)
    assert first.function.call is not second.function.call  # type: ignore[union-attr]


def test_a_view_that_is_read_twice_is_computed_once() -> None:
    view = stream().group_by("k").window(ps.tumbling("1s")).agg(n=ps.count())
    joined = view.join(view, on="k", within="2s")
    program = compile_query(joined.to.files("out").sink).program
    assert len(program.inputs) == 1
    assert [len(s.branches) for s in program.subqueries] == [2, 1]
    assert [(b.target, b.port) for b in program.subqueries[0].branches] == [(1, 0), (1, 1)]
