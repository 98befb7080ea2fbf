"""A source of your own: the rows of a SQLite table, in the order of their rowid. Run it with: python sqlite_source.py

`penstock run --import sqlite_source` knows it; SQL calls it connector = 'sqlite'.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import penstock as ps


@dataclass(frozen=True)
class SqliteSplit:
    """The rows `after` < rowid <= `last` of a table: one task reads them in one epoch, and reads the same again."""

    database: str
    table: str
    after: int
    last: int
    rows: int
    schema: pa.Schema
    substream: str = "table"

    @property
    def where(self) -> str:
        return f"{self.database}, {self.table}, rows {self.after + 1} to {self.last}"

    def read(self, columns: tuple[str, ...]) -> Iterator[ps.ReadResult]:
        named = ", ".join(f'"{name}"' for name in columns) or "NULL"
        query = f'SELECT {named} FROM "{self.table}" WHERE rowid > ? AND rowid <= ? ORDER BY rowid'
        with closing(sqlite3.connect(self.database)) as connection:
            found = connection.execute(query, (self.after, self.last)).fetchall()
        fields = [self.schema.field(name) for name in columns]
        values = list(zip(*found, strict=True)) if found else [()] * len(columns)
        arrays = [pa.array(column, field.type) for column, field in zip(values, fields, strict=False)]
        yield ps.ReadResult(pa.table(arrays, schema=pa.schema(fields)))


@dataclass(frozen=True)
class SqliteReader:
    """Cuts a table into splits. Progress is the last rowid that was offered: it is in the checkpoint, so a restarted
    query continues after it."""

    source: SqliteSource
    schema: pa.Schema

    def offer(self, progress: dict[str, Any] | None, max_rows: int) -> ps.Offer:
        after = progress["rowid"] if progress else 0
        page = f'SELECT rowid FROM "{self.source.table}" WHERE rowid > ? ORDER BY rowid LIMIT ?'
        query = f"SELECT max(rowid), count(*) FROM ({page})"
        with closing(sqlite3.connect(self.source.database)) as connection:
            last, rows = connection.execute(query, (after, min(max_rows, self.source.page))).fetchone()
        if not rows:
            return ps.Offer((), {"rowid": after}, ended=True)
        split = SqliteSplit(self.source.database, self.source.table, after, last, rows, self.schema)
        return ps.Offer((split,), {"rowid": last}, ended=False)


@dataclass(frozen=True)
class SqliteSource:
    """A table of a SQLite file, whose rows are only ever added. `page`: how many rows an epoch reads at most."""

    database: str
    table: str
    page: int = 100_000

    kind = "sqlite"
    bounded = True

    def identity(self) -> dict[str, Any]:
        return {"database": self.database, "table": self.table}

    def discover(self) -> pa.Schema:
        types = {"INTEGER": pa.int64(), "REAL": pa.float64(), "TEXT": pa.string()}
        with closing(sqlite3.connect(self.database)) as connection:
            columns = connection.execute(f'PRAGMA table_info("{self.table}")').fetchall()
        return pa.schema([pa.field(name, types[type_]) for _, name, type_, *_ in columns])

    def open(self, schema: pa.Schema, time: str) -> SqliteReader:
        return SqliteReader(self, schema)


ps.register_source("sqlite", SqliteSource)


def sales_per_shop(database: str) -> ps.Stream:
    """Return the sales of each shop in every ten units of time."""
    sales = ps.read.source("sqlite", time="sold", progress=ps.slack(5), database=database, table="sales", page=40)
    return sales.group_by("shop").window(ps.tumbling(10)).agg(n=ps.count(), total=ps.sum("amount"))


def make_sales(database: str, rows: int = 200) -> None:
    """Fill a table with sales, up to five units of time out of order."""
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute('CREATE TABLE "sales" (sold INTEGER, shop TEXT, amount REAL)')
        made = [(n // 2 - n * 7 % 5, f"shop {n % 3}", float(n * 11 % 17)) for n in range(rows)]
        connection.executemany("INSERT INTO sales VALUES (?, ?, ?)", made)


if __name__ == "__main__":
    make_sales("sales.db")
    print(sales_per_shop("sales.db").to.memory().start(master="inline").wait().pandas())
