"""Every file, once, in order, whatever the cuts and the crashes; and what happens when files come, go and change."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.connectors.files.listing import natural_key
from penstock.connectors.files.source import FilesConnector
from penstock.connectors.source import SubstreamReader
from penstock.errors import ConfigError, SourceError

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("ts", pa.timestamp("us"))])
FORMATS = ("parquet", "arrow", "stream", "csv", "json")


def table(first: int, rows: int) -> pa.Table:
    ids = list(range(first, first + rows))
    names = [("é" * (i % 7) + f"n{i}") if i % 5 else None for i in ids]
    return pa.table({"id": ids, "name": names, "ts": [i * 1_000 for i in ids]}, schema=SCHEMA)


def write(path: Path, rows: pa.Table, kind: str, unit: int = 7) -> None:
    match kind:
        case "parquet":
            pq.write_table(rows, path, row_group_size=unit)
        case "arrow":
            with pa.ipc.new_file(path, rows.schema) as writer:
                writer.write_table(rows, max_chunksize=unit)
        case "stream":
            with pa.ipc.new_stream(path, rows.schema) as writer:
                writer.write_table(rows, max_chunksize=unit)
        case "csv":
            arrow_csv.write_csv(rows, path)
        case "json":
            lines = [
                json.dumps({k: v for k, v in row.items() if v is not None}, default=str) for row in rows.to_pylist()
            ]
            path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def extension(kind: str) -> str:
    return {"stream": "arrow"}.get(kind, kind)


def read_epochs(
    connector: FilesConnector, limits: list[int], columns: tuple[str, ...] = tuple(SCHEMA.names)
) -> pa.Table:
    """All rows of a bounded source, with a new reader and the progress through JSON at every epoch."""
    tables, progress, epoch = [SCHEMA.empty_table().select(list(columns))], None, 0
    while True:
        offer = connector.open(SCHEMA, "ts").offer(progress, limits[epoch % len(limits)])
        for split in pickle.loads(pickle.dumps(offer.splits)):
            for result in split.read(columns):
                assert result.bad is None
                tables.append(result.rows)
        progress, epoch = json.loads(json.dumps(offer.progress)), epoch + 1
        if offer.ended:
            assert offer.waiting == 0
            assert connector.open(SCHEMA, "ts").offer(progress, 10).splits == ()
            return pa.concat_tables(tables).combine_chunks()
        assert offer.splits


def rows_of(offer) -> list[int]:
    return [i for split in offer.splits for result in split.read(("id",)) for i in result.rows["id"].to_pylist()]


@pytest.mark.parametrize("kind", FORMATS)
@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 60), min_size=1, max_size=4),
    split_rows=st.integers(1, 80),
    limits=st.lists(st.integers(1, 90), min_size=1, max_size=3),
)
def test_every_row_once_and_in_order(tmp_path_factory, kind, sizes, split_rows, limits):
    folder = tmp_path_factory.mktemp("data")
    expected, first = [SCHEMA.empty_table()], 0
    for i, size in enumerate(sizes):
        expected.append(table(first, size))
        write(folder / f"part-{i + 8}.{extension(kind)}", expected[-1], kind)
        first += size
    missing = "null" if kind == "json" else "error"  # a null is written as a key that is not there
    found = read_epochs(FilesConnector(str(folder), split_rows=split_rows, missing=missing), limits)
    assert found.equals(pa.concat_tables(expected).combine_chunks())


@pytest.mark.parametrize("kind", FORMATS)
def test_only_the_columns_asked_for(tmp_path, kind):
    write(tmp_path / f"a.{extension(kind)}", table(0, 20), kind)
    assert read_epochs(FilesConnector(str(tmp_path)), [100], ("ts", "id")).equals(table(0, 20).select(["ts", "id"]))
    offer = FilesConnector(str(tmp_path)).open(SCHEMA, "ts").offer(None, 100)
    assert [result.rows.num_rows for split in offer.splits for result in split.read(())] == [20]


@pytest.mark.parametrize("kind", FORMATS)
def test_discovery(tmp_path, kind):
    (tmp_path / f"0.{extension(kind)}").touch()
    write(tmp_path / f"a.{extension(kind)}", table(0, 20), kind)
    assert {f.name: f.type for f in FilesConnector(str(tmp_path)).discover()} == {f.name: f.type for f in SCHEMA}


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_splits_are_cut_at_split_rows_and_the_limit(tmp_path, kind):
    write(tmp_path / f"a.{kind}", table(0, 70), kind, unit=10)
    offer = FilesConnector(str(tmp_path), split_rows=25).open(SCHEMA, "ts").offer(None, 45)
    assert [split.rows for split in offer.splits] == [20, 20]
    assert offer.waiting == 30


def test_units_that_fit_exactly_make_one_split(tmp_path):
    write(tmp_path / "a.parquet", table(0, 40), "parquet", unit=10)
    offer = FilesConnector(str(tmp_path), split_rows=20).open(SCHEMA, "ts").offer(None, 40)
    assert [split.rows for split in offer.splits] == [20, 20]


def test_a_limit_below_a_row_group_still_offers_it(tmp_path):
    write(tmp_path / "a.parquet", table(0, 10), "parquet", unit=10)
    assert [s.rows for s in FilesConnector(str(tmp_path)).open(SCHEMA, "ts").offer(None, 3).splits] == [10]


def test_natural_order():
    assert sorted(["b/10.csv", "b/9.csv", "a/100.csv", "b/09.csv"], key=natural_key) == [
        "a/100.csv", "b/09.csv", "b/9.csv", "b/10.csv",
    ]  # fmt: skip


def test_names_left_out_and_names_taken(tmp_path):
    (tmp_path / "deep" / "_temporary").mkdir(parents=True)
    for i, name in enumerate(["a.csv", "deep/b.csv"]):
        write(tmp_path / name, table(i, 1), "csv")
    for name in [".c.csv", "_d.csv", "e.csv.tmp", "f.inprogress", "g.crc", "deep/_temporary/h.csv"]:
        write(tmp_path / name, table(9, 1), "csv")
    assert read_epochs(FilesConnector(str(tmp_path)), [9])["id"].to_pylist() == [0, 1]
    assert read_epochs(FilesConnector(str(tmp_path / "**" / "*.csv")), [9])["id"].to_pylist() == [0, 1]
    named = FilesConnector((str(tmp_path / "_d.csv"), str(tmp_path / "*.csv"), str(tmp_path / "a.csv")))
    assert read_epochs(named, [9])["id"].to_pylist() == [9, 0]


def test_a_bounded_source_reads_what_was_there_at_its_first_offer(tmp_path):
    connector = FilesConnector(str(tmp_path))
    for i in (1, 2):
        write(tmp_path / f"{i}.csv", table(i, 1), "csv")
    offer = connector.open(SCHEMA, "ts").offer(None, 1)
    write(tmp_path / "0.csv", table(0, 1), "csv")
    rest = connector.open(SCHEMA, "ts").offer(offer.progress, 100)
    assert (rows_of(offer), rows_of(rest), rest.ended) == ([1], [2], True)
    (tmp_path / "2.csv").unlink()
    with pytest.raises(SourceError, match="1 of the 1 files still to be read no longer exist"):
        connector.open(SCHEMA, "ts").offer(offer.progress, 100)


def test_following_reads_new_files_also_with_smaller_names(tmp_path):
    connector = FilesConnector(str(tmp_path), follow=True)
    first = connector.open(SCHEMA, "ts").offer(None, 100)
    assert (first.splits, first.ended) == ((), False)
    write(tmp_path / "5.csv", table(5, 2), "csv")
    second = connector.open(SCHEMA, "ts").offer(first.progress, 100)
    write(tmp_path / "3.csv", table(3, 1), "csv")
    third = connector.open(SCHEMA, "ts").offer(second.progress, 100)
    assert (rows_of(second), rows_of(third)) == ([5, 6], [3])
    assert connector.open(SCHEMA, "ts").offer(third.progress, 100).splits == ()


def test_a_partly_read_file_is_finished_before_others(tmp_path):
    connector = FilesConnector(str(tmp_path), follow=True)
    write(tmp_path / "5.parquet", table(5, 14), "parquet")
    offer = connector.open(SCHEMA, "ts").offer(None, 7)
    write(tmp_path / "3.parquet", table(3, 1), "parquet")
    assert rows_of(connector.open(SCHEMA, "ts").offer(offer.progress, 100)) == [*range(12, 19), 3]


def test_finished_files_take_twelve_characters_until_they_vanish(tmp_path):
    connector = FilesConnector(str(tmp_path), follow=True)
    for i in range(40):
        write(tmp_path / f"{i}.csv", table(i, 1), "csv")
    offer = connector.open(SCHEMA, "ts").offer(None, 100)
    assert len(offer.progress["finished"]) == 40 * 12
    for i in range(39):
        (tmp_path / f"{i}.csv").unlink()
    after = connector.open(SCHEMA, "ts").offer(offer.progress, 100)
    assert (after.splits, len(after.progress["finished"])) == ((), 12)
    (tmp_path / "39.csv").unlink()
    assert connector.open(SCHEMA, "ts").offer(after.progress, 100).progress == after.progress  # maybe a lost mount


def test_files_that_are_substreams_give_what_each_may(tmp_path):
    for name, first in (("a", 0), ("b", 100), ("c", 200)):
        write(tmp_path / f"{name}.parquet", table(first, 20), "parquet", unit=2)
    connector = FilesConnector(str(tmp_path), substreams="files", split_rows=2)
    first = connector.open(SCHEMA, "ts").offer(None, 6)
    assert [split.rows for split in first.splits] == [2, 2, 2]
    a, b, _ = (split.substream for split in first.splits)
    reader = connector.open(SCHEMA, "ts")
    assert isinstance(reader, SubstreamReader)
    second = reader.offer_at_most({a: 0, b: 8}, first.progress, 12)
    assert [split.substream for split in second.splits].count(a) == 0
    assert [split.substream for split in second.splits].count(b) == 4
    assert not second.ended
    assert second.waiting == 60 - 6 - 8 - 4
    third = connector.open(SCHEMA, "ts").offer_at_most({a: 1000}, second.progress, 3)
    assert third.finished == (a,)
    assert sum(split.rows for split in third.splits if split.substream == a) == 18


def test_a_finished_file_that_changes_is_an_error(tmp_path):
    connector = FilesConnector(str(tmp_path), follow=True)
    write(tmp_path / "a.csv", table(0, 3), "csv")
    offer = connector.open(SCHEMA, "ts").offer(None, 100)
    with open(tmp_path / "a.csv", "a") as file:
        file.write('9,"x",1970-01-01\n')
    with pytest.raises(SourceError, match=r"a\.csv` has changed"):
        connector.open(SCHEMA, "ts").offer(offer.progress, 100)
    with pytest.raises(SourceError, match=r"a\.csv` has changed"):
        rows_of(offer)


@pytest.mark.parametrize("follow", [True, False])
def test_a_partly_read_file_that_changes_or_vanishes_is_an_error(tmp_path, follow):
    connector = FilesConnector(str(tmp_path / "*"), follow=follow)
    path = tmp_path / "a.parquet"
    write(path, table(0, 30), "parquet")
    offer = connector.open(SCHEMA, "ts").offer(None, 7)
    os.utime(path, ns=(1, 1))
    with pytest.raises(SourceError, match=r"a\.parquet` has changed"):
        connector.open(SCHEMA, "ts").offer(offer.progress, 7)
    path.unlink()
    with pytest.raises(SourceError, match=r"a\.parquet` was removed"):
        connector.open(SCHEMA, "ts").offer(offer.progress, 7)
    with pytest.raises(SourceError, match=r"a\.parquet` was removed"):
        rows_of(offer)


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_rubbish_in_binary_files_names_the_file(tmp_path, kind):
    write(tmp_path / "good", table(0, 30), kind)
    whole = (tmp_path / "good").read_bytes()
    path = tmp_path / f"a.{kind}"
    for data in (b"rubbish" * 10, whole[: len(whole) // 2]):
        path.write_bytes(data)
        with pytest.raises(SourceError, match=rf"cannot read `.*a\.{kind}` as {kind}"):
            rows_of(FilesConnector(str(path)).open(SCHEMA, "ts").offer(None, 100))
        if data.startswith(b"rub"):
            with pytest.raises(SourceError, match="cannot read"):
                FilesConnector(str(path)).discover()


@pytest.mark.parametrize("kind", ["parquet", "arrow", "csv"])
def test_a_missing_column_is_an_error_with_a_suggestion(tmp_path, kind):
    write(tmp_path / f"a.{kind}", table(0, 3).rename_columns(["ids", "name", "ts"]), kind)
    with pytest.raises(SourceError, match="column `id` is missing") as error:
        rows_of(FilesConnector(str(tmp_path)).open(SCHEMA, "ts").offer(None, 100))
    assert error.value.hint == "did you mean `ids`?; with missing = 'null' a column that a file lacks is null"


@pytest.mark.parametrize("kind", ["parquet", "arrow", "stream"])
def test_a_row_without_a_time_is_set_aside(tmp_path, kind):
    times = pa.array([None if i in (3, 12) else i for i in range(20)], pa.timestamp("us"))
    rows = table(0, 20).set_column(2, "ts", times)
    write(tmp_path / f"a.{extension(kind)}", rows, kind)
    offer = FilesConnector(str(tmp_path), split_rows=7).open(SCHEMA, "ts").offer(None, 100)
    results = [result for split in offer.splits for result in split.read(("id",))]
    bad = pa.concat_tables([result.bad for result in results if result.bad is not None])
    assert bad["line"].to_pylist() == [4, 13]
    assert bad["reason"].to_pylist() == ["`ts` is null"] * 2
    assert json.loads(bad["text"][1].as_py()) == {"id": 12, "ts": None}
    assert [i for r in results for i in r.rows["id"].to_pylist()] == [i for i in range(20) if i not in (3, 12)]


def test_foreign_types_are_brought_to_the_schema(tmp_path):
    foreign = pa.table(
        {
            "id": pa.array([1, 2], pa.uint32()),
            "name": pa.array(["a", "b"]).dictionary_encode(),
            "ts": pa.array([1_000, 2_000], pa.timestamp("ns", "UTC")),
            "more": [1, 2],
        }
    )
    pq.write_table(foreign, tmp_path / "a.parquet")
    found = read_epochs(FilesConnector(str(tmp_path)), [10])
    assert found.to_pydict()["id"] == [1, 2]
    assert found["ts"].cast(pa.int64()).to_pylist() == [1, 2]


def test_a_source_without_files(tmp_path):
    connector = FilesConnector(str(tmp_path))
    for ask in (connector.discover, lambda: connector.open(SCHEMA, "ts").offer(None, 1)):
        with pytest.raises(SourceError, match="no file with data matches") as error:
            ask()
        assert error.value.hint
    with pytest.raises(SourceError, match="cannot list"):
        FilesConnector(str(tmp_path / "nowhere.csv")).discover()


def test_the_format_comes_from_the_extension_or_is_given(tmp_path):
    write(tmp_path / "a.txt", table(0, 2), "csv")
    with pytest.raises(SourceError, match=r"cannot tell the format of `.*a\.txt`"):
        FilesConnector(str(tmp_path)).discover()
    assert read_epochs(FilesConnector(str(tmp_path), format="csv"), [9]).num_rows == 2


@pytest.mark.parametrize(
    "options", [{"format": "parkett"}, {"split_rows": 0}, {"delimiter": "::"}, {"delimiter": '"'}, {"path": ()}]
)
def test_options_are_checked(options):
    with pytest.raises(ConfigError) as error:
        FilesConnector(**({"path": "x"} | options))
    assert error.value.hint


def test_identity_leaves_out_tuning():
    assert FilesConnector("x", split_rows=5).identity() == FilesConnector("x").identity()
    assert FilesConnector("x", follow=True).identity() != FilesConnector("x").identity()
    assert json.loads(json.dumps(FilesConnector("x").identity())) == FilesConnector("x").identity()


def test_waiting_estimates_unopened_files(tmp_path):
    for i in range(10):
        write(tmp_path / f"{i}.csv", table(i * 100, 100), "csv")
    offer = FilesConnector(str(tmp_path)).open(SCHEMA, "ts").offer(None, 100)
    assert 600 < offer.waiting < 1200


def test_progress_of_the_other_kind_is_refused(tmp_path):
    write(tmp_path / "a.csv", table(0, 2), "csv")
    progress = FilesConnector(str(tmp_path)).open(SCHEMA, "ts").offer(None, 1).progress
    with pytest.raises(SourceError, match="does not belong to this source"):
        FilesConnector(str(tmp_path), follow=True).open(SCHEMA, "ts").offer(progress, 1)


def test_a_path_or_a_list_of_paths_will_do(tmp_path):
    write(tmp_path / "a.csv", table(0, 2), "csv")
    assert FilesConnector(tmp_path) == FilesConnector(str(tmp_path))
    assert hash(FilesConnector([tmp_path])) == hash(FilesConnector((str(tmp_path),)))


def test_a_file_deleted_while_it_is_listed_is_skipped(tmp_path):
    write(tmp_path / "a.csv", table(0, 2), "csv")
    (tmp_path / "b.csv").symlink_to(tmp_path / "gone.csv")
    assert read_epochs(FilesConnector(str(tmp_path / "*.csv")), [9]).num_rows == 2
