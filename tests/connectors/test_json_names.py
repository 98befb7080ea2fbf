"""JSON lines: which key a column takes, and what happens where no row of a file has it."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.connectors.files.source import FilesConnector
from penstock.connectors.source import ReadResult
from penstock.errors import SourceError
from penstock.type_names import arrow_type

SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.int64())])


def schema_of(**types: str) -> pa.Schema:
    return pa.schema([(name, arrow_type(type_)) for name, type_ in types.items()])


def write(path: Path, *rows: object) -> Path:
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return path


def read(path: Path, schema: pa.Schema = SCHEMA, split_rows: int | None = None, **options: str) -> ReadResult:
    connector = FilesConnector(str(path), split_rows=split_rows, **options)  # type: ignore[arg-type]
    found = [
        result
        for split in connector.open(schema, "ts").offer(None, 10**6).splits
        for result in split.read(tuple(schema.names))
    ]
    bad = [result.bad for result in found if result.bad is not None]
    rows = pa.concat_tables([schema.empty_table(), *(result.rows for result in found)])
    return ReadResult(rows, pa.concat_tables(bad) if bad else None)


def test_names_of_keys_match_without_regard_to_case(tmp_path):
    path = write(tmp_path / "a.jsonl", {"ID": 1, "Ts": 10}, {"id": 2, "ts": 11}, {"iD": 3, "TS": 12})
    assert read(path).rows.to_pylist() == [{"id": 1, "ts": 10}, {"id": 2, "ts": 11}, {"id": 3, "ts": 12}]


def test_the_very_name_goes_before_others_that_differ_in_case(tmp_path):
    path = write(tmp_path / "a.jsonl", {"ID": 1, "id": 2, "ts": 10}, {"id": None, "ID": 3, "ts": 11})
    assert read(path).rows["id"].to_pylist() == [2, None]


def test_a_row_with_keys_that_differ_only_in_case_is_malformed(tmp_path):
    path = write(tmp_path / "a.jsonl", {"ID": 1, "Id": 2, "ts": 10}, {"Id": 3, "ts": 11})
    found = read(path)
    assert found.rows["id"].to_pylist() == [3]
    assert found.bad["line"].to_pylist() == [1]
    assert found.bad["reason"].to_pylist() == ["`id`: the keys `ID` and `Id` differ only in case"]


def test_a_key_that_is_another_column_is_not_taken(tmp_path):
    schema = pa.schema([("id", pa.int64()), ("ID", pa.int64()), ("ts", pa.int64())])
    path = write(tmp_path / "a.jsonl", {"id": 1, "ID": 2, "ts": 10}, {"ID": 3, "ts": 11})
    assert read(path, schema).rows.to_pylist() == [{"id": 1, "ID": 2, "ts": 10}, {"id": None, "ID": 3, "ts": 11}]
    assert FilesConnector(str(path)).discover().names == ["id", "ID", "ts"]


def test_escaped_and_foreign_names_match_too(tmp_path):
    lines = [r'{"\u0049D": 1, "ts": 10, "STRASSE": 1, "ÉTÉ": 5}', r'{"id": 2, "ts": 11, "\u00c9t\u00e9": 6}']
    path = write(tmp_path / "a.jsonl", *lines)
    schema = pa.schema([("id", pa.int64()), ("été", pa.int64()), ("ts", pa.int64())])
    assert read(path, schema).rows.to_pylist() == [{"id": 1, "été": 5, "ts": 10}, {"id": 2, "été": 6, "ts": 11}]


def test_a_column_that_no_row_has_is_refused_with_the_nearest_name(tmp_path):
    path = write(tmp_path / "a.jsonl", {"user_id": 1, "ts": 10}, {"user_id": 2, "ts": 11})
    with pytest.raises(SourceError, match=r"no row of `.*a\.jsonl` has the column `userid`") as error:
        read(path, schema_of(userid="BIGINT", ts="BIGINT"))
    assert "did you mean `user_id`?" in error.value.hint
    assert "missing = 'null'" in error.value.hint


def test_with_missing_null_a_column_that_no_row_has_is_null(tmp_path):
    path = write(tmp_path / "a.jsonl", {"user_id": 1, "ts": 10})
    found = read(path, schema_of(userid="BIGINT", ts="BIGINT"), missing="null")
    assert found.rows.to_pylist() == [{"userid": None, "ts": 10}]


@pytest.mark.parametrize("kind", ["csv", "parquet", "arrow"])
def test_missing_null_holds_for_every_format(tmp_path, kind):
    import pyarrow.feather as feather
    import pyarrow.parquet as pq

    rows = pa.table({"TS": [10, 11]})
    path = tmp_path / f"a.{kind}"
    match kind:
        case "csv":
            path.write_text("TS\n10\n11\n")
        case "parquet":
            pq.write_table(rows, path)
        case "arrow":
            feather.write_feather(rows, path, compression="uncompressed")
    assert read(path, missing="null").rows.to_pylist() == [{"id": None, "ts": 10}, {"id": None, "ts": 11}]
    with pytest.raises(SourceError, match="column `id` is missing"):
        read(path)


@pytest.mark.parametrize("split_rows", [1, 2, 1000])
@pytest.mark.parametrize("place", [0, 1, 40, 99])
def test_one_row_with_the_key_is_enough_wherever_it_is_and_however_the_file_is_cut(tmp_path, split_rows, place):
    rows = [{"ts": i, **({"id": 7} if i == place else {})} for i in range(100)]
    found = read(write(tmp_path / "a.jsonl", *rows), split_rows=split_rows)
    assert found.rows["id"].to_pylist() == [7 if i == place else None for i in range(100)]
    rows[place].pop("id")
    with pytest.raises(SourceError, match="no row of"):
        read(write(tmp_path / "a.jsonl", *rows), split_rows=split_rows)


def test_each_file_is_checked_for_itself(tmp_path):
    write(tmp_path / "a.jsonl", {"id": 1, "ts": 10})
    write(tmp_path / "b.jsonl", {"ident": 2, "ts": 11})
    with pytest.raises(SourceError, match=r"no row of `.*b\.jsonl`"):
        read(tmp_path)


@pytest.mark.parametrize("text", ["", "\n\n", "null\n", "not json\n", "[1]\n"])
def test_a_file_without_rows_lacks_nothing(tmp_path, text):
    (tmp_path / "a.jsonl").write_text(text)
    assert read(tmp_path).rows.num_rows == 0


def test_a_file_that_follow_mode_finds_later_is_checked(tmp_path):
    write(tmp_path / "a.jsonl", {"id": 1, "ts": 10})
    reader = FilesConnector(str(tmp_path), follow=True).open(SCHEMA, "ts")
    progress = reader.offer(None, 10).progress
    write(tmp_path / "b.jsonl", {"ts": 11})
    with pytest.raises(SourceError, match=r"no row of `.*b\.jsonl` has the column `id`"):
        reader.offer(progress, 10)


def test_a_key_far_into_a_large_file_is_found(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"ts": 1}\n' * 500_000 + '{"ts": 2, "Id": 9}\n')
    assert read(path).rows["id"].to_pylist()[-1] == 9


def test_a_field_of_a_struct_that_no_object_has_is_refused(tmp_path):
    schema = schema_of(user="STRUCT<id BIGINT, naem VARCHAR>", ts="BIGINT")
    path = write(tmp_path / "a.jsonl", {"user": {"id": 1, "name": "x"}, "ts": 10})
    with pytest.raises(SourceError, match=r"has the column `user\.naem`") as error:
        read(path, schema)
    assert "did you mean `user.name`?" in error.value.hint
    write(path, {"user": None, "ts": 10})
    assert read(path, schema).rows["user"].to_pylist() == [None]


KEYS = st.sampled_from(["id", "ID", "Id", "other", "a.b"])
OBJECTS = st.lists(
    st.dictionaries(KEYS, st.one_of(st.none(), st.integers(0, 9)), max_size=4).map(lambda row: row | {"ts": 1}),
    max_size=12,
)


def expected_id(row: dict[str, object]) -> object:
    """The rule, by one row: its very name, or the only one that differs in case; "bad" where there are several."""
    if "id" in row:
        return row["id"]
    others = [key for key in row if key.lower() == "id"]
    return "bad" if len(others) > 1 else row[others[0]] if others else None


@settings(max_examples=60, deadline=None)
@given(rows=OBJECTS, split_rows=st.integers(1, 6))
def test_the_rule_of_names_does_not_depend_on_how_the_file_is_cut(tmp_path_factory, rows, split_rows):
    path = write(tmp_path_factory.mktemp("names") / "a.jsonl", *rows)
    found = read(path, split_rows=split_rows, missing="null")
    wanted = [expected_id(row) for row in rows]
    assert found.rows["id"].to_pylist() == [value for value in wanted if value != "bad"]
    lines = [] if found.bad is None else found.bad["line"].to_pylist()
    assert lines == [i + 1 for i, value in enumerate(wanted) if value == "bad"]


def test_an_empty_key_is_ignored_or_refused_with_words(tmp_path):
    path = write(tmp_path / "a.jsonl", {"": 5, "id": 1, "ts": 10})
    assert read(path).rows.to_pylist() == [{"id": 1, "ts": 10}]
    with pytest.raises(SourceError, match="has a key without a name"):
        FilesConnector(str(path)).discover()


def test_times_are_still_found_by_other_spellings(tmp_path):
    path = write(tmp_path / "a.jsonl", {"Id": 1, "TS": "2024-01-01T00:00:00Z"})
    schema = schema_of(id="BIGINT", ts="TIMESTAMP")
    assert read(path, schema).rows.to_pylist() == [{"id": 1, "ts": datetime(2024, 1, 1)}]
