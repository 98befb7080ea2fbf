"""Rows in order of time for each key: what need not pass through one site does not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.api.streams import Stream
from penstock.api.write import Ready
from penstock.checkpoint.store import Checkpoint
from penstock.engine.driver.executor import InlineExecutor
from penstock.engine.driver.loop import EpochLoop, Outcome
from penstock.engine.driver.recovery import recover
from penstock.errors import QueryError
from penstock.operators.reorder import Reorder
from penstock.plan.compile.subqueries import compile_query
from penstock.plan.options import CompileOptions
from penstock.settings import Settings
from penstock.testing.rows import assert_same_rows

COLUMNS = {"ts": "BIGINT", "k": "BIGINT", "v": "BIGINT"}


def rows_of(random: Random) -> list[pa.Table]:
    rows = [(random.randrange(60), random.randrange(7), random.randrange(9)) for _ in range(240)]
    rows.sort(key=lambda row: row[0] + random.randrange(10))
    return [
        pa.table({name: [r[n] for r in rows[a : a + 40]] for n, name in enumerate(COLUMNS)}) for a in range(0, 240, 40)
    ]


def numbered(random: Random) -> tuple[Stream, list[pa.Table]]:
    tables = rows_of(random)
    return ps.read.batches(tables, time="ts", progress=ps.slack(10), name="numbers"), tables


@pytest.mark.parametrize("case", range(10))
def test_a_function_sees_each_key_in_order_on_several_sites(case: int, random: Random, tmp_path: Path) -> None:
    seen: dict[int, list[tuple[int, int]]] = defaultdict(list)

    def watched(rows: pa.Table) -> pa.Table:
        for row in rows.to_pylist():
            seen[row["k"]].append((row["ts"], row["v"]))
        return rows

    stream, tables = numbered(random)
    query = stream.in_order(by="k").map_batches(watched, COLUMNS, time="ts")
    settings = Settings(
        sites=4, items=random.choice([None, 1]), item_rows=random.choice([1, 1000]), hash_bits=random.choice([2, 64])
    )
    compiled = compile_query(query.to.files(str(tmp_path / "out")).sink, CompileOptions.of(settings))
    loop = EpochLoop(recover(compiled, Checkpoint.open(tmp_path / "ck"), settings), InlineExecutor())
    busy: set[int] = set()
    while loop.step() is not Outcome.FINISHED:
        busy |= {report.site for report in loop.last.reports if report.rows_in}
        loop.scale([0], random.randint(2, 6))
    assert all(of_key == sorted(of_key) for of_key in seen.values())
    assert_same_rows(pq.read_table(tmp_path / "out"), pa.concat_tables(tables))
    assert len(busy) > 1


def orders_of(query: Stream) -> list[tuple[str, ...]]:
    program = compile_query(query.to.memory().sink, CompileOptions(in_order=True)).program
    return [s.operator.keys for s in program.subqueries if isinstance(s.operator, Reorder)]


def test_in_order_mode_is_content_with_the_order_that_a_query_asks_for(random: Random) -> None:
    stream, _ = numbered(random)
    asked = stream.in_order(by=["k"]).where(ps.col("v") > 1)
    assert orders_of(asked) == [("k",)]
    assert orders_of(asked.map_batches(lambda rows: rows, COLUMNS, time="ts")) == [("k",), ()]
    assert orders_of(stream) == [()]


def test_explain_says_where_all_rows_pass_through_one_site_and_why(random: Random) -> None:
    stream, _ = numbered(random)
    why = "the order is over all rows (in_order(by=…), or in_order_by of a sink, spreads it)"
    one = f"exchange to one site of subquery 0: {why}"
    assert one in stream.in_order().explain()
    assert "one site" not in stream.in_order(by="k").explain()
    assert "subquery 0: rows in order of ts, for each k" in stream.in_order(by="k").explain()
    counted = stream.window(ps.tumbling(5)).agg(n=ps.count())
    assert "exchange to one site of subquery 0: all rows are one group" in counted.explain()


DESTINATIONS: dict[str, Callable[..., Ready]] = {
    "files": lambda stream, **asked: stream.to.files("out", **asked),
    "memory": lambda stream, **asked: stream.to.memory(**asked),
    "callback": lambda stream, **asked: stream.to.callback(print, **asked),
    "terminal": lambda stream, **asked: stream.to.terminal(**asked),
}


@pytest.mark.parametrize("kind", DESTINATIONS)
def test_a_destination_can_ask_for_an_order(kind: str, random: Random) -> None:
    stream, _ = numbered(random)
    to = DESTINATIONS[kind]
    assert to(stream, in_order=True).sink.input == stream.in_order().node
    assert to(stream, in_order_by="k").sink.input == stream.in_order(by="k").node
    assert to(stream, in_order=True, in_order_by=["k", "v"]).sink.input == stream.in_order(by=["k", "v"]).node
    assert to(stream).sink.input == stream.node


def test_in_order_mode_needs_no_single_site_where_a_function_and_the_sink_name_keys(random: Random) -> None:
    stream, _ = numbered(random)
    applied = stream.in_order(by="k").map_batches(lambda rows: rows, COLUMNS, time="ts")
    shown = applied.to.memory(in_order_by="k").explain(order="in")
    assert shown.count("rows in order of ts, for each k") == 2
    assert "one site" not in shown
    assert "exchange to one site of subquery 1" in applied.to.memory().explain(order="in")


def test_a_column_that_is_not_there_is_refused(random: Random) -> None:
    with pytest.raises(QueryError, match="kk"):
        numbered(random)[0].in_order(by="kk")
