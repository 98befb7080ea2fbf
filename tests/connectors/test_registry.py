"""Connectors by name: a user's source in Python and in SQL, exactly once across restarts; wrong names and options."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.api.script import read_script
from penstock.connectors import registry
from penstock.connectors.sinks.files import FilesSink
from penstock.errors import ConfigError, PenstockError

EXAMPLES = Path(__file__).parents[2] / "examples"
SQL = """
CREATE SOURCE sales (WATERMARK FOR sold AS sold - 5)
  WITH (connector = 'sqlite', database = '{folder}/sales.db', table = 'sales', page = 40);
CREATE SINK totals WITH (connector = 'files', path = '{folder}/out') AS
SELECT shop, window_start, count(*) AS n, sum(amount) AS total FROM TUMBLE(sales, sold, 10) GROUP BY shop, window_start;
"""


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Import the example afresh; what it registers is gone after the test."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    for known in (registry.sources, registry.sinks):
        monkeypatch.setattr(known, "_known", dict(known._known))
    sys.modules.pop("sqlite_source", None)
    import sqlite_source

    sqlite_source.make_sales(str(tmp_path / "sales.db"))
    yield sqlite_source
    sys.modules.pop("sqlite_source", None)


def batch_answer(folder: Path) -> list[tuple[Any, ...]]:
    """Return the answer of DuckDB over all rows of the table."""
    with closing(sqlite3.connect(folder / "sales.db")) as connection:
        rows = connection.execute("SELECT sold, shop, amount FROM sales").fetchall()
    sold, shop, amount = (pa.array(column) for column in zip(*rows, strict=True))
    sales = pa.table({"sold": sold, "shop": shop, "amount": amount})
    query = "SELECT shop, floor(sold / 10.0)::BIGINT * 10, count(*), sum(amount) FROM sales GROUP BY ALL ORDER BY ALL"
    with duckdb.connect() as database:
        database.register("sales", sales)
        return database.execute(query).fetchall()


def published(folder: Path) -> list[tuple[Any, ...]]:
    found = pa.concat_tables([pq.read_table(file) for file in sorted((folder / "out").glob("*.parquet"))])
    return sorted(tuple(row[name] for name in ("shop", "window_start", "n", "total")) for row in found.to_pylist())


def test_a_users_source_gives_every_row_once_across_restarts_in_python(example: ModuleType, tmp_path: Path) -> None:
    ready = example.sales_per_shop(str(tmp_path / "sales.db")).to.files(str(tmp_path / "out"))
    restart(ready, tmp_path)


def test_a_users_source_gives_every_row_once_across_restarts_in_sql(example: ModuleType, tmp_path: Path) -> None:
    (query,) = read_script(SQL.format(folder=tmp_path)).queries
    restart(query.ready, tmp_path)


def test_pages_of_the_example_have_all_rows_in_any_order_that_sqlite_likes(
    example: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = sqlite3.connect

    def reversing(database: str) -> sqlite3.Connection:
        connection = connect(database)
        connection.execute("PRAGMA reverse_unordered_selects = ON")
        return connection

    monkeypatch.setattr(sqlite3, "connect", reversing)
    run = example.sales_per_shop(str(tmp_path / "sales.db")).to.memory().start(master="inline").wait()
    assert run.progress.rows_in == 200


def restart(ready: Any, folder: Path) -> None:
    """Run a query an epoch at a time until it ends, and compare its results with the batch answer."""
    runs = 0
    while True:
        run = ready.start(folder / "ck", master="inline", progress=False, until="1 epochs").wait()
        runs += 1
        if run.progress.state == "finished":
            break
    assert runs > 4
    assert published(folder) == batch_answer(folder)


@pytest.mark.parametrize(
    ("options", "told", "hint"),
    [
        ("connector = 'sqlit', table = 'sales'", "unknown connector `sqlit` of a source", "did you mean `sqlite`?"),
        ("connector = 'sqlite', tabel = 'x'", "a sqlite source has no option `tabel`", "did you mean `table`?"),
        ("connector = 'sqlite', table = 'x'", "a sqlite source needs the option `database`", "add database = ..."),
        ("connector = 'sqlite', page = 'x'", "`page` cannot be `x`", "write digits only, as in 100000"),
    ],
)
def test_a_wrong_option_of_a_users_source_is_named(example: ModuleType, options: str, told: str, hint: str) -> None:
    with pytest.raises(PenstockError) as raised:
        read_script(f"CREATE SOURCE s (WATERMARK FOR sold AS sold) WITH ({options}); SELECT * FROM s")
    assert (raised.value.what, raised.value.hint) == (told, hint)


def test_a_wrong_option_is_named_in_python(example: ModuleType) -> None:
    with pytest.raises(ConfigError, match="a sqlite source has no option `tabel`"):
        ps.read.source("sqlite", time="sold", tabel="sales")
    with pytest.raises(ConfigError, match="unknown connector `sqlit` of a source"):
        ps.read.source("sqlit", time="sold")


def test_a_users_sink_is_written_to_by_name(example: ModuleType, tmp_path: Path) -> None:
    def dated(folder: str, day: int = 1) -> FilesSink:
        return FilesSink(f"{folder}/day-{day}")

    ps.register_sink("dated", dated)
    rows = ps.read.table([{"ts": 1}, {"ts": 2}], time="ts")
    rows.to.sink("dated", folder=str(tmp_path), day=7).start(master="inline", progress=False).wait()
    (file,) = (tmp_path / "day-7").glob("*.parquet")
    assert pq.read_table(file).column("ts").to_pylist() == [1, 2]
    text = f"CREATE SINK k WITH (connector = 'dated', folder = '{tmp_path}', day = 8) AS SELECT ts FROM calls;"
    script = "CREATE SOURCE calls (WATERMARK FOR ts AS ts) WITH (connector = 'calls', rows = 3);" + text
    (query,) = read_script(script).queries
    assert query.ready.sink.connector == FilesSink(f"{tmp_path}/day-8")


@pytest.mark.parametrize(
    ("name", "factory", "told"),
    [
        ("files", FilesSink, "`files` cannot be the name of a source"),
        ("My Source", FilesSink, "`My Source` cannot be the name of a source"),
        ("mine", 3, "`3` makes no source"),
    ],
)
def test_what_cannot_be_registered_is_refused(name: str, factory: Any, told: str) -> None:
    with pytest.raises(ConfigError) as raised:
        ps.register_source(name, factory)
    assert raised.value.what == told
    assert raised.value.detail
    assert raised.value.hint


def test_a_factory_that_returns_no_source_is_refused(example: ModuleType) -> None:
    ps.register_source("wrong", lambda: 3)  # type: ignore[arg-type, return-value]
    with pytest.raises(ConfigError) as raised:
        ps.read.source("wrong", time="sold")
    assert raised.value.what == "the connector `wrong` is not a source"
    assert raised.value.detail == "int lacks kind, identity, bounded, discover, open"
