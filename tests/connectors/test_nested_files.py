"""Nested values of files: read as STRUCT, ARRAY and MAP columns, by dotted names, or as JSON text."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.connectors.files.source import FilesConnector
from penstock.connectors.source import ReadResult
from penstock.errors import SourceError
from penstock.type_names import arrow_type
from penstock.types import normalise


def schema_of(**types: str) -> pa.Schema:
    return pa.schema([(name.replace("__", "."), arrow_type(type_)) for name, type_ in types.items()])


def read(path: Path, schema: pa.Schema, split_rows: int | None = None, **options: str) -> ReadResult:
    connector = FilesConnector(str(path), split_rows=split_rows, **options)  # type: ignore[arg-type]
    found = [
        result
        for split in connector.open(schema, "ts").offer(None, 10**6).splits
        for result in split.read(tuple(schema.names))
    ]
    bad = [result.bad for result in found if result.bad is not None]
    rows = pa.concat_tables([schema.empty_table(), *(result.rows for result in found)])
    return ReadResult(rows, pa.concat_tables(bad) if bad else None)


def lines(path: Path, *rows: object) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def test_objects_and_arrays_are_read_into_declared_types(tmp_path):
    schema = schema_of(
        user="STRUCT<id BIGINT, born DATE, address STRUCT<city VARCHAR, zip INT>>",
        tags="VARCHAR[]",
        points="ARRAY<STRUCT<x DOUBLE, at: TIMESTAMP>>",
        counts="MAP<VARCHAR, DECIMAL(10, 2)>",
        by_day="MAP<DATE, BIGINT[]>",
        ts="BIGINT",
    )
    row = {
        "user": {"id": 1, "BORN": "2000-02-29", "address": {"city": "Ulm", "zip": None}, "more": 1},
        "tags": ["a", None, 'q"', 5, {"b": 1}],
        "points": [{"x": 1, "at": "2024-01-01T00:00:00Z"}, None, {"x": None, "at": None}],
        "counts": {"a": 1.25, "b": "2.5", "c": None},
        "by_day": {"2024-01-01": [1, 2]},
        "ts": 10,
    }
    path = lines(tmp_path / "a.jsonl", row, {"ts": 11}, {"user": {}, "tags": [], "points": [], "counts": {}, "ts": 12})
    first, second, third = read(path, schema).rows.to_pylist(maps_as_pydicts="strict")
    assert first["user"] == {"id": 1, "born": datetime(2000, 2, 29).date(), "address": {"city": "Ulm", "zip": None}}
    assert first["tags"] == ["a", None, 'q"', "5", '{"b":1}']
    assert first["points"] == [{"x": 1.0, "at": datetime(2024, 1, 1)}, None, {"x": None, "at": None}]
    assert first["counts"] == {"a": Decimal("1.25"), "b": Decimal("2.50"), "c": None}
    assert first["by_day"] == {datetime(2024, 1, 1).date(): [1, 2]}
    assert second == {"user": None, "tags": None, "points": None, "counts": None, "by_day": None, "ts": 11}
    assert third["user"] == {"id": None, "born": None, "address": None}
    assert (third["tags"], third["points"], third["counts"], third["by_day"]) == ([], [], {}, None)


BAD = {
    '{"user": 5, "ts": 1}': "`user`: '5' is not a STRUCT(id BIGINT)",
    '{"user": {"id": "x"}, "ts": 1}': "`user.id`: '\"x\"' is not a BIGINT",
    '{"user": {"ID": 1, "Id": 2}, "ts": 1}': "`id`: the keys `ID` and `Id` differ only in case",
    '{"tags": {"a": 1}, "ts": 1}': "`tags`: '{\"a\":1}' is not a BIGINT[]",
    '{"tags": [1, "x", "y"], "ts": 1}': "`tags[]`: '\"x\"' is not a BIGINT",
    '{"days": [1], "ts": 1}': "`days`: '[1]' is not a MAP(DATE, BIGINT)",
    '{"days": {"monday": 1}, "ts": 1}': "`days key`: 'monday' is not a DATE",
    '{"days": {"2024-01-01": "x"}, "ts": 1}': "`days[]`: '\"x\"' is not a BIGINT",
    '{"days": {"2024-01-01": 1, "2024-01-01": 2}, "ts": 1}': (
        '`days`: \'{"2024-01-01":1,"2024-01-01":2}\' is not a MAP(DATE, BIGINT)'
    ),
}
GOOD = '{"user": {"id": 1}, "tags": [1], "days": {"2024-01-01": 1}, "ts": 2}'
NESTED = schema_of(user="STRUCT<id BIGINT>", tags="BIGINT[]", days="MAP<DATE, BIGINT>", ts="BIGINT")


@pytest.mark.parametrize("line", BAD)
def test_malformed_nested_values_are_named_with_their_place(tmp_path, line):
    path = tmp_path / "a.jsonl"
    path.write_text(f"{GOOD}\n{line}\n{GOOD}\n")
    found = read(path, NESTED)
    assert found.rows.num_rows == 2
    assert [(row["line"], row["reason"]) for row in found.bad.to_pylist()] == [(2, BAD[line])]


@settings(max_examples=20, deadline=None)
@given(chosen=st.lists(st.sampled_from([GOOD, *BAD]), max_size=12), split_rows=st.integers(2, 8))
def test_malformed_nested_values_do_not_depend_on_how_the_file_is_cut(tmp_path_factory, chosen, split_rows):
    path = tmp_path_factory.mktemp("nested") / "a.jsonl"
    path.write_text("".join(f"{line}\n" for line in chosen))
    found = read(path, NESTED, split_rows, missing="null")
    assert found.rows.num_rows == chosen.count(GOOD)
    reasons = [] if found.bad is None else found.bad["reason"].to_pylist()
    assert reasons == [BAD[line] for line in chosen if line != GOOD]


def test_dotted_names_lead_into_objects(tmp_path):
    schema = schema_of(user__id="BIGINT", user__home__city="VARCHAR", ts="BIGINT")
    path = lines(
        tmp_path / "a.jsonl",
        {"user": {"id": 1, "home": {"city": "Ulm"}}, "ts": 10},
        {"User": {"ID": 2, "home": None}, "ts": 11},
        {"user.id": 3, "user": {"id": 99}, "ts": 12},
        {"ts": 13},
        {"user": 5, "ts": 14},
    )
    found = read(path, schema)
    assert found.rows["user.id"].to_pylist() == [1, 2, 3, None]
    assert found.rows["user.home.city"].to_pylist() == ["Ulm", None, None, None]
    assert found.bad["reason"].to_pylist() == ["`user` is not a JSON object"]
    lines(path, {"user": {"id": 1}, "ts": 10}, {"user": {"id": 2}, "ts": 11})
    with pytest.raises(SourceError, match=r"has the column `user\.idd`") as error:
        read(path, schema_of(user__idd="BIGINT", ts="BIGINT"))
    assert "did you mean `user.id`?" in error.value.hint


def test_any_json_value_is_text_in_a_varchar_column(tmp_path):
    path = lines(tmp_path / "a.jsonl", *({"v": v, "ts": 1} for v in ["x", 5, True, [1, "a"], {"b": [None]}, None]))
    assert read(path, schema_of(v="VARCHAR", ts="BIGINT")).rows["v"].to_pylist() == [
        "x", "5", "true", '[1,"a"]', '{"b":[null]}', None,
    ]  # fmt: skip


def test_inference_drops_nothing(tmp_path):
    path = lines(
        tmp_path / "a.jsonl",
        {"u": {"id": 1, "t": ["a"]}, "l": [{"x": 1}, {"y": 2.5}], "m": 1, "e": {}, "n": None, "c": {"a": 1, "A": 2}},
        {"u": {"id": 2.5}, "m": "x", "ts": "2024-01-01 00:00:00"},
    )
    found = FilesConnector(str(path)).discover()
    assert {field.name: str(field.type) for field in found} == {
        "u": "struct<id: double, t: list<item: string>>",
        "l": "list<item: struct<x: int64, y: double>>",
        "m": "string", "e": "string", "n": "string", "c": "string", "ts": "timestamp[us]",
    }  # fmt: skip
    rows = read(path, found, missing="null")
    assert rows.rows["u"].to_pylist() == [{"id": 2.5, "t": None}]


VALUES = st.recursive(
    st.one_of(st.none(), st.integers(-5, 5), st.text('ab"\\ü', max_size=3)),
    lambda below: st.one_of(st.lists(below, max_size=3), st.dictionaries(st.sampled_from("xyz"), below, max_size=3)),
    max_leaves=6,
)


@settings(max_examples=40, deadline=None)
@given(values=st.lists(VALUES, min_size=1, max_size=8))
def test_what_is_inferred_can_be_read_and_equals_what_duckdb_reads(tmp_path_factory, values):
    path = lines(tmp_path_factory.mktemp("inferred") / "a.jsonl", *({"v": v, "ts": i} for i, v in enumerate(values)))
    schema = FilesConnector(str(path)).discover()
    found = read(path, schema, missing="null")
    assert found.bad is None
    if schema.field("v").type == pa.string() and any(isinstance(v, str) for v in values):
        return  # DuckDB reads a mixed column as JSON, with strings in quotes
    named = {field.name: _duckdb_type(field.type) for field in schema}
    sql = f"SELECT * FROM read_json('{path}', format='newline_delimited', columns={named}) ORDER BY ts"
    expected = duckdb.sql(sql).to_arrow_table().cast(schema)
    assert found.rows.to_pylist() == expected.to_pylist()


def _duckdb_type(type_: pa.DataType) -> str:
    from penstock.type_names import sql_type

    return sql_type(type_)


TABLE = pa.table(
    {
        "User": pa.array(
            [{"ID": 1, "Tags": ["a"], "m": [("k", 1)]}, None, {"ID": 3, "Tags": None, "m": []}],
            pa.struct(
                [
                    pa.field("ID", pa.int32(), nullable=False),
                    ("Tags", pa.large_list(pa.dictionary(pa.int32(), pa.string()))),
                    ("m", pa.map_(pa.string(), pa.int16())),
                ]
            ),
        ),
        "points": pa.array([[{"x": 1}], [], None], pa.list_(pa.struct([pa.field("x", pa.float32(), nullable=False)]))),
        "ts": pa.array([10, 11, 12], pa.int64()),
    }
)


@pytest.fixture(params=["parquet", "arrow"])
def binary(request, tmp_path) -> Path:
    path = tmp_path / f"a.{request.param}"
    if request.param == "parquet":
        pq.write_table(TABLE, path)
    else:
        feather.write_feather(TABLE, path, compression="uncompressed")
    return path


def test_nested_columns_of_binary_files(binary):
    schema = normalise(FilesConnector(str(binary)).discover())
    assert read(binary, schema).rows.to_pylist() == TABLE.to_pylist()


def test_dotted_and_narrower_columns_of_binary_files(binary):
    schema = schema_of(user__id="BIGINT", USER="STRUCT<m MAP<VARCHAR, BIGINT>, id BIGINT>", ts="BIGINT")
    assert read(binary, schema).rows.to_pylist() == [
        {"user.id": 1, "USER": {"m": [("k", 1)], "id": 1}, "ts": 10},
        {"user.id": None, "USER": None, "ts": 11},
        {"user.id": 3, "USER": {"m": [], "id": 3}, "ts": 12},
    ]
    with pytest.raises(SourceError, match=r"column `user\.idd` is missing") as error:
        read(binary, schema_of(user="STRUCT<idd BIGINT>", ts="BIGINT"))
    assert "did you mean `user.ID`?" in error.value.hint
    lenient = read(binary, schema_of(user="STRUCT<idd BIGINT>", ts="BIGINT"), missing="null")
    assert lenient.rows["user"].to_pylist() == [{"idd": None}, None, {"idd": None}]


def test_a_parquet_file_that_has_a_column_twice(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table([pa.array([1]), pa.array([2]), pa.array([3])], names=["id", "id", "ts"]), path)
    with pytest.raises(SourceError, match="has several columns `id`"):
        FilesConnector(str(path)).discover()
    with pytest.raises(SourceError, match="has several columns `id`"):
        read(path, schema_of(id="BIGINT", ts="BIGINT"))
    assert read(path, schema_of(ts="BIGINT")).rows.to_pylist() == [{"ts": 3}]


def test_an_object_of_very_many_keys_is_inferred_as_json_text(tmp_path):
    path = lines(tmp_path / "a.jsonl", {"counts": {f"user{i}": i for i in range(300)}, "ts": 1})
    found = FilesConnector(str(path)).discover()
    assert found.field("counts").type == pa.string()
    assert json.loads(read(path, found).rows["counts"][0].as_py())["user299"] == 299


def test_very_deep_json_is_read_as_text(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"ts": 1}\n{"ts": 2, "v": ' + '{"a":' * 5000 + "1" + "}" * 5000 + "}\n")
    found = FilesConnector(str(path)).discover()
    assert found.field("v").type == pa.string()
    assert read(path, schema_of(ts="BIGINT", v__a="VARCHAR")).rows["v.a"].null_count == 1
    assert read(path, schema_of(ts="BIGINT")).rows.num_rows == 2
    assert len(read(path, schema_of(ts="BIGINT", v="VARCHAR")).rows["v"][1].as_py()) == 30_001


def test_a_nested_type_of_a_csv_column_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text("user,ts\n{},1\n")
    with pytest.raises(SourceError, match=r"column `user` of .* cannot be a STRUCT\(id BIGINT\)"):
        read(tmp_path, schema_of(user="STRUCT<id BIGINT>", ts="BIGINT"))
