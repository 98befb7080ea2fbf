"""Nested values through the whole engine: field access in SQL and Python, and STRUCT, ARRAY and MAP columns that pass
through every operator and come out as in the batch answer. What cannot be done is refused before anything runs."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import penstock as ps
from penstock.api.script import read_script
from penstock.api.streams import Stream
from penstock.connectors.sinks.terminal import print_rows
from penstock.errors import QueryError
from penstock.plan.logical import Node, Source, inputs_of
from penstock.testing.oracle import batch_answer
from penstock.testing.ways import random_way
from tests.support.amounts import some_of

COLUMNS = """user STRUCT<id BIGINT, name VARCHAR, home STRUCT<city VARCHAR, zip INT>>, tags VARCHAR[],
    counts MAP<VARCHAR, BIGINT>, points ARRAY<STRUCT<x: DOUBLE>>, ts BIGINT, v BIGINT"""


def events(random: Random, rows: int) -> list[dict[str, Any]]:
    return [
        {
            "user": None if i % 11 == 7 else {"id": i % 5, "name": f"n{i % 3}", "home": _home(random)},
            "tags": random.choice([None, [], ["a"], ["a", None, "b"], ["ü", '"']]),
            "counts": random.choice([None, {}, {"x": i, "y": None}, {"x": 1}]),
            "points": random.choice([None, [], [{"x": 0.5}, None], [{"x": None}]]),
            "ts": max(0, i + random.randrange(-3, 4)),
            "v": random.randrange(4),
        }
        for i in range(rows)
    ]


def _home(random: Random) -> dict[str, Any] | None:
    return random.choice([None, {"city": "Ulm", "zip": 1}, {"city": None, "zip": 2}])


def script_of(folder: Path, query: str, columns: str = COLUMNS) -> str:
    """A source of all files of a folder, and a query over it."""
    source = f"CREATE SOURCE s ({columns}, WATERMARK FOR ts AS ts - 10) WITH (connector = 'files', path = '{folder}');"
    return f"{source}\n{query}"


def node_of(folder: Path, query: str, columns: str = COLUMNS) -> Node:
    return read_script(script_of(folder, query, columns)).queries[0].ready.sink.input


def write_events(folder: Path, rows: list[dict[str, Any]], kind: str) -> Path:
    if kind == "jsonl":
        (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return folder
    schema = node_of(folder, "SELECT * FROM s").schema  # type: ignore[union-attr]
    maps = [row | {"counts": row["counts"] and list(row["counts"].items())} for row in rows]
    pq.write_table(pa.Table.from_pylist(maps, schema), folder / "a.parquet", row_group_size=40)
    return folder


def source_rows(node: Node) -> pa.Table:
    source = node
    while not isinstance(source, Source):
        source = inputs_of(source)[0]
    splits = source.connector.open(source.schema, source.time).offer(None, 10**6).splits  # type: ignore[attr-defined]
    return pa.concat_tables([r.rows for split in splits for r in split.read(tuple(source.schema.names))])


def run(node: Node, **settings: Any) -> pa.Table:
    running = Stream(node).to.memory().start(master="inline", **settings)
    running.wait()
    return running.result()


def as_set(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


QUERIES = {
    "fields": "SELECT user.id, user.home.city, s.user.name, tags[1] AS t, counts['x'] AS x, points[1].x AS p, ts "
    "FROM s",
    "whole": "SELECT * FROM s WHERE user.home.zip IS DISTINCT FROM 2 AND len(tags) > 0",
    "grouped by a field": "SELECT user.id, count(*) AS n, sum(user.home.zip) AS z FROM TUMBLE(s, ts, 20) "
    "GROUP BY user.id, window_start",
    "grouped by text": "SELECT to_json(user) AS u, count(tags) AS n FROM TUMBLE(s, ts, 20) "
    "GROUP BY to_json(user), window_start",
    "distinct": "SELECT DISTINCT user.name, ts FROM s",
    "built": "SELECT CASE WHEN v > 1 THEN tags END AS some, user = user AS same, ts FROM s",
    "join": "SELECT a.user, b.tags, b.counts, a.points FROM s AS a JOIN s AS b "
    "ON a.user.id = b.v AND b.ts BETWEEN a.ts AND a.ts + 3",
    "left join": "SELECT a.user, b.tags, b.counts, b.user AS other FROM s AS a LEFT JOIN s AS b "
    "ON a.user.id = b.v + 2 AND b.ts BETWEEN a.ts AND a.ts + 2",
    "theta join": "SELECT a.user, b.counts FROM s AS a JOIN s AS b "
    "ON a.user.id < b.v AND b.ts BETWEEN a.ts AND a.ts + 1",
    "top": "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start ORDER BY v DESC) AS r "
    "FROM TUMBLE(s, ts, 20)) WHERE r <= 3",
    "first": "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY user.id ORDER BY ts) AS r FROM s) WHERE r = 1",
    "union": "SELECT user, counts, ts FROM s UNION ALL SELECT user, counts, ts FROM s",
    "windows": "SELECT * FROM HOP(s, ts, 10, 20)",
}


@pytest.mark.parametrize("kind", some_of(["jsonl", "parquet"], 2))
@pytest.mark.parametrize("name", QUERIES)
def test_nested_columns_pass_through_every_operator(tmp_path, random, name, kind):
    node = node_of(write_events(tmp_path, events(random, 120), kind), QUERIES[name])
    way = random_way(random).settings()
    assert as_set(run(node, **way)) == as_set(batch_answer(node, {"s": source_rows(node)})), way


def test_rows_in_order_of_time_keep_nested_columns(tmp_path, random):
    node = node_of(write_events(tmp_path, events(random, 60), "jsonl"), "SELECT * FROM s")
    found = run(Stream(node).in_order().node)
    assert found["ts"].to_pylist() == sorted(found["ts"].to_pylist())
    assert as_set(found) == as_set(source_rows(node))


def test_nested_rows_reach_files_of_both_formats(tmp_path, random):
    rows = write_events(tmp_path, events(random, 50), "jsonl")
    expected = as_set(source_rows(node_of(rows, "SELECT * FROM s")))
    for kind in ("parquet", "arrow"):
        out = tmp_path / f"_{kind}"
        stream = Stream(node_of(rows, "SELECT * FROM s"))
        stream.to.files(str(out), format=kind).start(checkpoint=str(tmp_path / f"_c{kind}"), master="inline").wait()
        read = ps.read.files(f"{out}/*.{kind}", time="ts")
        assert as_set(run(read.node)) == expected


def test_dotted_columns_are_declared_and_selected(tmp_path, random):
    folder = write_events(tmp_path, events(random, 30), "jsonl")
    columns = "user.id BIGINT, user.home.city VARCHAR, ts BIGINT"
    node = node_of(folder, "SELECT user.id, s.user.home.city AS city, ts FROM s WHERE user.id > 1", columns)
    found = run(node)
    assert found.column_names == ["user.id", "city", "ts"]
    assert as_set(found) == as_set(batch_answer(node, {"s": source_rows(node)}))
    assert found.num_rows > 0


def test_a_dotted_column_can_be_the_time(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"meta": {"ts": 1}, "v": 1}\n{"meta": {"ts": 25}, "v": 2}\n')
    script = (
        "CREATE SOURCE s (meta.ts BIGINT, v BIGINT, WATERMARK FOR meta.ts AS meta.ts - 1) "
        f"WITH (connector = 'files', path = '{tmp_path}');"
        "SELECT window_start, sum(v) AS total FROM TUMBLE(s, meta.ts, 20) GROUP BY window_start"
    )
    found = run(read_script(script).queries[0].ready.sink.input)
    assert sorted(found.to_pylist(), key=str) == [
        {"window_start": 0, "total": 1}, {"window_start": 20, "total": 2},
    ]  # fmt: skip


def test_fields_in_python(tmp_path, random):
    folder = write_events(tmp_path, events(random, 30), "jsonl")
    stream = ps.read.files(
        str(folder),
        time="ts",
        schema={"user": "STRUCT<id BIGINT, name VARCHAR>", "tags": "ARRAY<VARCHAR>", "ts": "BIGINT"},
    )
    picked = stream.where(ps.col("user").field("id") > 1).select(ps.col("user").field("name"), "tags")
    assert as_set(run(picked.node)) == as_set(batch_answer(picked.node, {"files": source_rows(picked.node)}))
    with pytest.raises(QueryError) as error:
        run(stream.where(ps.col("user.id") > 1).node)
    assert 'ps.col("user").field("id")' in error.value.hint


def test_nested_tables_in_memory(random):
    maps = pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int8()))
    rows = pa.table({"user": [{"id": 1, "l": [1.5]}, None], "m": maps, "ts": [1, 2]})
    stream = ps.read.table(rows, time="ts")
    assert as_set(run(stream.node)) == as_set(rows)
    other = rows.set_column(0, "user", pa.array([{"id": 1, "l": [2.5]}, None]))
    assert ps.read.table(other, time="ts").node.connector != stream.node.connector
    assert ps.read.table(pa.concat_tables([rows.slice(0, 1), rows.slice(1)]), time="ts").node == stream.node


REFUSED = {
    "SELECT DISTINCT user, ts FROM s": "column `user` cannot be a key",
    "SELECT tags, count(*) AS n FROM TUMBLE(s, ts, 20) GROUP BY tags, window_start": "column `tags` cannot be a key",
    "SELECT a.v FROM s AS a JOIN s AS b ON a.user = b.user AND b.ts = a.ts": "cannot be a key",
    "SELECT max(user) AS m FROM TUMBLE(s, ts, 20) GROUP BY window_start": "`max` cannot be applied to `user`",
    "SELECT sum(counts) AS m FROM TUMBLE(s, ts, 20) GROUP BY window_start": "`sum` cannot be applied to `counts`",
    "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start ORDER BY user) AS r "
    "FROM TUMBLE(s, ts, 20)) WHERE r = 1": "rows cannot be ordered by a nested value",
    "SELECT user.idd FROM s": "`user` has no field `idd`",
    "SELECT v.id FROM s": "`v` is of type BIGINT, and has no field `id`",
    "SELECT users.id FROM s": "unknown stream `users`",
    "SELECT user + 1 AS u FROM s": r"STRUCT\(.*\) and INTEGER cannot be added",
    "SELECT v FROM s WHERE user": "not BOOLEAN",
    "SELECT tags[v] FROM s": "brackets take a constant",
}


@pytest.mark.parametrize("query", REFUSED)
def test_what_nested_values_cannot_do_is_refused_before_anything_runs(tmp_path, query):
    (tmp_path / "a.jsonl").write_text("")
    with pytest.raises(QueryError, match=REFUSED[query]) as error:
        Stream(node_of(tmp_path, query)).to.memory().explain()
    assert error.value.hint


@pytest.mark.parametrize(
    "type_", ["STRUCT<id>", "ARRAY<BIGNT>", "MAP<VARCHAR>", "STRUCT<a INT, A INT>", "BIGINT[", "STRUCT<>"]
)
def test_types_that_are_none_are_refused_with_their_place(tmp_path, type_):
    with pytest.raises(QueryError) as error:
        node_of(tmp_path, "SELECT * FROM s", f"user {type_}, ts BIGINT")
    assert "line 1, column" in error.value.detail
    assert error.value.hint


def test_nested_values_on_the_terminal_are_json():
    rows = pa.table({"u": [{"id": 1, "t": ["ü"]}], "m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))})
    console = Console(record=True, width=100, file=open("/dev/null", "w"))  # noqa: SIM115
    print_rows(console, rows, "epoch 1", 5)
    shown = console.export_text()
    assert '{"id": 1, "t": ["ü"]}' in shown
    assert '{"a": 1}' in shown
