"""CSV and JSON lines: malformed lines are reported with their lines and reasons, and nothing else is lost."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.connectors.files.source import FilesConnector
from penstock.connectors.files.text_values import parse
from penstock.connectors.source import ReadResult
from penstock.errors import SourceError

SCHEMA = pa.schema([("id", pa.int64()), ("duration", pa.float64()), ("name", pa.string()), ("ts", pa.timestamp("us"))])
ALL = tuple(SCHEMA.names)

BAD_CSV = {
    "x1,1.5,a,2024-01-01": "`id`: 'x1' is not a BIGINT",
    "99999999999999999999,1.5,a,2024-01-01": "`id`: '99999999999999999999' is not a BIGINT",
    "1,abc,a,2024-01-01": "`duration`: 'abc' is not a DOUBLE",
    "1,1.5,a,2024-02-30": "`ts`: '2024-02-30' is not a TIMESTAMP",
    '1,"",a,2024-01-01': "`duration`: '' is not a DOUBLE",
    "1,1.5,a,": "`ts` is null",
    "1,1.5": "2 fields instead of 4",
    "1,1.5,a,2024-01-01,more": "5 fields instead of 4",
    '1,1.5,"open,2024-01-01': "a quoted field does not end on its line, or the line holds a carriage return",
    "1,1.5,a\rb,2024-01-01": "a quoted field does not end on its line, or the line holds a carriage return",
}
BAD_JSON = {
    '{"id": "7", "ts": "2024-01-01"}': "`id`: '\"7\"' is not a BIGINT",
    '{"id": 1.5, "ts": "2024-01-01"}': "`id`: '1.5' is not a BIGINT",
    '{"duration": true, "ts": "2024-01-01"}': "`duration`: 'true' is not a DOUBLE",
    '{"ts": 1700000000}': "`ts`: '1700000000' is not a TIMESTAMP",
    '{"id": 1}': "`ts` is null",
    '{"id": 1, "ts": null}': "`ts` is null",
    '{"id": 1': "the line is not a JSON object",
    '{"id": 1, "ts": "2024-01-01"} {}': "the line is not a JSON object",
    "null": "the line is not a JSON object",
    "[1]": "the line is not a JSON object",
}


def good_csv(i: int) -> str:
    quoted = f'"n, ""{i}"""' if i % 3 else f"ü{i}"
    return f"{i},{'' if i % 4 == 0 else i / 2},{quoted},2024-01-01T00:00:{i % 60:02}.5"


def good_json(i: int) -> str:
    return json.dumps({"id": i, "name": f"ü\n{i}", "ts": f"2024-01-01T00:00:{i % 60:02}Z", "more": [i]})


def read(path: Path, split_rows: int = 10**6, limit: int = 10**6, schema: pa.Schema = SCHEMA, **options) -> ReadResult:
    connector = FilesConnector(str(path), split_rows=split_rows, **options)
    rows, bad, progress, ended = [], [], None, False
    while not ended:
        offer = connector.open(schema, "ts").offer(progress, limit)
        for result in (result for split in offer.splits for result in split.read(tuple(schema.names))):
            rows.append(result.rows)
            bad += [] if result.bad is None else [result.bad]
        progress, ended = json.loads(json.dumps(offer.progress)), offer.ended
    return ReadResult(
        pa.concat_tables([schema.empty_table(), *rows]).combine_chunks(), pa.concat_tables(bad) if bad else None
    )


Line = tuple[str, str | None]


def lines_of(bad: dict[str, str], good) -> st.SearchStrategy[list[Line]]:
    wrong = st.sampled_from(sorted(bad.items()))
    blank = st.just(("", "blank"))
    right = st.integers(0, 10**6).map(lambda i: (good(i), None))
    return st.lists(st.one_of(right, right, right, wrong, blank), max_size=30)


def check(path: Path, lines: list[Line], head: str, end: str, last: bool, split_rows: int, limit: int) -> None:
    text = head + end.join(line for line, _ in lines) + (end if last else "")
    path.write_bytes(text.encode())
    found = read(path, split_rows, limit, missing="null")
    before = head.count("\n")
    expected = [(i + 1 + before, why, line) for i, (line, why) in enumerate(lines) if why and line]
    got = [] if found.bad is None else [(r["line"], r["reason"], r["text"]) for r in found.bad.to_pylist()]
    assert got == expected
    path.write_bytes((head + "".join(f"{line}\n" for line, why in lines if why is None)).encode())
    assert found.rows.equals(read(path, missing="null").rows)
    assert found.rows.num_rows == sum(why is None for _, why in lines)


CUTS = {
    "end": st.sampled_from(["\n", "\r\n"]),
    "bom": st.sampled_from(["", "\ufeff"]),
    "last": st.booleans(),
    "split_rows": st.integers(1, 40),
    "limit": st.integers(1, 60),
}


@settings(max_examples=60, deadline=None)
@given(lines=lines_of(BAD_CSV, good_csv), **CUTS)
def test_malformed_csv_lines(tmp_path_factory, lines, end, bom, last, split_rows, limit):
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    check(path, lines, f"{bom}id,duration,name,ts{end}", end, last, split_rows, limit)


@settings(max_examples=60, deadline=None)
@given(lines=lines_of(BAD_JSON, good_json), **CUTS)
def test_malformed_json_lines(tmp_path_factory, lines, end, bom, last, split_rows, limit):
    path = tmp_path_factory.mktemp("json") / "a.jsonl"
    check(path, lines, bom, end, last, split_rows, limit)


def test_values_of_good_csv_lines(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('id,more,duration,name,ts\n1,zz,,"a, ""b""",2024-01-01 00:00:01\n,,2,"",2024-01-01T00:00:02.5\n')
    assert read(path).rows.to_pylist() == [
        {"id": 1, "duration": None, "name": 'a, "b"', "ts": datetime(2024, 1, 1, 0, 0, 1)},
        {"id": None, "duration": 2.0, "name": "", "ts": datetime(2024, 1, 1, 0, 0, 2, 500_000)},
    ]


def test_values_of_good_json_lines(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"ts": "2024-01-01T02:00:00+02:00", "id": 1, "name": "\\u00e9\\"", "duration": 2}\n')
    assert read(path).rows.to_pylist() == [{"id": 1, "duration": 2.0, "name": 'é"', "ts": datetime(2024, 1, 1)}]


@pytest.mark.parametrize("time", ["2024-01-01T10:00:00Z", "2024-01-01 12:00:00.000+02:00", "2024-01-01T12:00:00+02"])
def test_times_with_zones_become_utc(tmp_path, time):
    (tmp_path / "a.csv").write_text(f"ts\n{time}\n{time}\n")
    (tmp_path / "b.csv").write_text(f"ts\n{time}\n2024-01-01T10:00\nnever\n2024-01-01T10:00:00.000000999\n")
    (tmp_path / "c.jsonl").write_text(f'{{"ts": "{time}"}}\n')
    found = read(tmp_path, schema=pa.schema([("ts", pa.timestamp("us"))]))
    assert found.rows["ts"].to_pylist() == [datetime(2024, 1, 1, 10)] * 6
    assert found.bad["line"].to_pylist() == [4]


@pytest.mark.parametrize(("name", "head"), [("a.csv", "id,duration,name,ts"), ("a.jsonl", "")])
@pytest.mark.parametrize("tail", ["", "\n", "\r\n\r\n", "\n\n\n"])
def test_files_without_rows(tmp_path, name, head, tail):
    (tmp_path / name).write_text(head + tail)
    found = read(tmp_path / name)
    assert (found.rows.num_rows, found.bad) == (0, None)


def test_lines_that_are_not_utf8(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"id,duration,name,ts\n1,1,\xff,2024-01-01\n2,1,b,2024-01-01\n")
    (tmp_path / "b.jsonl").write_bytes(
        b'{"id": 3, "name": "\xff", "ts": "2024-01-01"}\n{"id": 4, "ts": "2024-01-01"}\n'
    )
    found = read(tmp_path, missing="null")
    assert found.rows["id"].to_pylist() == [2, 4]
    assert [(r["line"], r["reason"]) for r in found.bad.to_pylist()] == [
        (2, "the line is not UTF-8"), (1, "the line is not UTF-8"),
    ]  # fmt: skip
    assert found.bad["text"][0].as_py() == "1,1,\ufffd,2024-01-01"


def test_very_long_lines_in_small_ranges(tmp_path):
    names = ["a" * 300_000, "b", "c" * 200_000]
    lines = "".join(f"{i},1,{name},2024-01-01\n" for i, name in enumerate(names))
    (tmp_path / "a.csv").write_text("id,duration,name,ts\n" + lines)
    assert read(tmp_path / "a.csv", split_rows=1, limit=1).rows["name"].to_pylist() == names


def test_a_quoted_newline_is_malformed_wherever_the_file_is_cut(tmp_path):
    (tmp_path / "a.csv").write_text('id,duration,name,ts\n1,1,"a\nb",2024-01-01\n2,1,c,2024-01-01\n')
    for split_rows in (1, 100):
        found = read(tmp_path / "a.csv", split_rows)
        assert (found.rows["id"].to_pylist(), found.bad["line"].to_pylist()) == ([2], [2, 3])


JOINED, PARTED = '2,1,"a\nb",2024-01-01', "2,1,a,2024-01-01\r3,1,b,2024-01-01"


@pytest.mark.parametrize("middle", [JOINED, PARTED, f"{JOINED}\n{PARTED}"])
def test_lines_the_parser_would_join_or_part(tmp_path, middle):
    good = "1,1,a,2024-01-01"
    (tmp_path / "a.csv").write_bytes(f"id,duration,name,ts\n{good}\n{middle}\n{good}\n".encode())
    found = read(tmp_path / "a.csv")
    assert found.rows["id"].to_pylist() == [1, 1]
    assert found.bad["text"].to_pylist() == middle.split("\n")


def test_a_byte_order_mark_inside_a_file_is_data(tmp_path):
    schema = pa.schema([("name", pa.string()), ("ts", pa.timestamp("us"))])
    (tmp_path / "a.csv").write_text(f"name,ts\n{'a' * 50},2024-01-01\n\ufeffb,2024-01-01\n")
    for split_rows in (1, 100):
        assert read(tmp_path, split_rows, schema=schema).rows["name"].to_pylist() == ["a" * 50, "\ufeffb"]


def test_csv_without_a_header(tmp_path):
    (tmp_path / "a.csv").write_text("1;2.5;x;2024-01-01\n2;;y;2024-01-02\n")
    options = {"header": False, "delimiter": ";"}
    assert FilesConnector(str(tmp_path), **options).discover().names == [f"column{i}" for i in range(4)]
    assert read(tmp_path, **options).rows["duration"].to_pylist() == [2.5, None]


@pytest.mark.parametrize("delimiter", [";", "\t", " ", "|", "^", "-", "]", ".", "\\", "x"])
def test_delimiters_also_beside_malformed_lines(tmp_path, delimiter):
    schema = pa.schema([("a", pa.int64()), ("b", pa.string()), ("ts", pa.int64())])
    good = delimiter.join(["1", f'"q{delimiter}"', "5"])
    lines = [delimiter.join(["a", "b", "ts"]), good, "nonsense", good]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    found = read(tmp_path, schema=schema, delimiter=delimiter)
    assert found.rows.to_pylist() == [{"a": 1, "b": f"q{delimiter}", "ts": 5}] * 2
    assert found.bad["line"].to_pylist() == [3]


def test_tab_separated(tmp_path):
    (tmp_path / "a.tsv").write_text("id\tduration\tname\tts\n1\t2\tx,y\t2024-01-01\n")
    assert read(tmp_path).rows["name"].to_pylist() == ["x,y"]


def test_two_columns_of_one_name(tmp_path):
    (tmp_path / "a.csv").write_text("id,id,duration,name,ts\n1,1,1,a,2024-01-01\n")
    with pytest.raises(SourceError, match="several columns `id`"):
        read(tmp_path)


def test_awkward_column_names(tmp_path):
    schema = pa.schema([('q"; drop', pa.int64()), ("a.b", pa.int64()), ("$.x", pa.int64()), ("ts", pa.timestamp("us"))])
    row = {'q"; drop': 1, "a.b": 2, "$.x": 3, "ts": "2024-01-01"}
    (tmp_path / "a.jsonl").write_text(json.dumps(row) + "\n")
    (tmp_path / "b.csv").write_text('"q""; drop",a.b,$.x,ts\n1,2,3,2024-01-01\n')
    expected = row | {"ts": datetime(2024, 1, 1)}
    assert read(tmp_path, schema=schema).rows.to_pylist() == [expected, expected]


def test_json_discovery(tmp_path):
    (tmp_path / "a.jsonl").write_text(
        '{"i": 1, "d": 1, "s": "x", "b": true, "t": "2024-01-01T00:00:00Z", "day": "2024-01-01",'
        ' "n": {"a": 1}, "z": null}\n'
        'null\n{"i": -2, "d": 1.5, "t": "2024-01-01"}\n'
    )
    found = FilesConnector(str(tmp_path)).discover()
    assert {f.name: str(f.type) for f in found} == {
        "i": "int64", "d": "double", "s": "string", "b": "bool", "t": "timestamp[us]", "day": "date32[day]",
        "n": "struct<a: int64>", "z": "string",
    }  # fmt: skip


TEXTS = (
    "1", "-1", "+1", " 1", "1 ", "\t1", "01", "0x1F", "0XfF", "-0x1", "0x", "1e3", "1.", ".5", "-.5", "1.50", "1.555",
    "300", "40000", "3000000000", "99999999999999999999", "nan", "NaN", "inf", "-Infinity", "INF", "1e400", "true",
    "True", "TRUE", "false", "t", "yes", "0", "2024-01-02", " 2024-01-02", "2024-1-2", "2024-02-30", "0001-01-01",
    "2024-01-02 03", "2024-01-02T03:04", "2024-01-02T03:04:05", "2024-01-02T24:00:00", "2024-01-02T03:04:60",
    "2024-01-02 03:04:05.1", "2024-01-02 03:04:05.123456", "2024-01-02 03:04:05.1234567", "20240102", "x", "-", "1_0",
    "1,0", "٣", "NULL", "None",
)  # fmt: skip
TYPES = (
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary(),
    pa.date32(), pa.timestamp("us"), pa.decimal128(10, 2),
)  # fmt: skip


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_both_ways_of_reading_agree_on_every_value(tmp_path, type_):
    """What a file read at once accepts, the reading by lines accepts with the same value: cuts change nothing."""
    for text in TEXTS:
        path = tmp_path / "a.csv"
        schema = pa.schema([("v", type_), ("ts", pa.timestamp("us"))])
        path.write_text(f'v,ts\n"{text}",2024-01-01\n')
        alone = read(path, schema=schema)
        path.write_text(f'v,ts\n"{text}",2024-01-01\nrubbish\n')
        beside = read(path, schema=schema)
        assert alone.rows.cast(_as_text(schema)).equals(beside.rows.cast(_as_text(schema))), text
        if pa.types.is_decimal(type_):
            continue  # not judged by Arrow's CSV reader
        try:
            options = arrow_csv.ConvertOptions(column_types={"v": type_}, null_values=[])
            strict = arrow_csv.read_csv(pa.BufferReader(f'v\n"{text}"\n'.encode()), convert_options=options)["v"]
        except pa.ArrowInvalid:
            continue
        value = parse(pa.array([text]), type_)[0]
        assert value.cast(_text_type(type_)).equals(strict.combine_chunks().cast(_text_type(type_))), text


def _text_type(type_: pa.DataType) -> pa.DataType:
    return type_ if pa.types.is_decimal(type_) or pa.types.is_binary(type_) else pa.string()


def _as_text(schema: pa.Schema) -> pa.Schema:
    return pa.schema([(f.name, _text_type(f.type)) for f in schema])  # as text, NaN equals NaN


def test_many_malformed_values_at_once():
    texts = pa.array([str(2**70)] * 2_000 + ["1"] + ["x"] * 100_000)
    values, bad = parse(texts, pa.int64())
    assert (bad.sum(), values[2_000].as_py()) == (102_000, 1)
