"""Sinks in order of time: `in_order` and `in_order_by` of CREATE SINK, without Spark."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli_case import last_json, penstock, run

from penstock.balance import policies
from penstock.balance.decisions import Decision, Move
from penstock.balance.stats import RoundStats
from penstock.testing.rows import assert_same_rows

SOURCE = """CREATE SOURCE calls (ts BIGINT, district BIGINT, kind VARCHAR, v BIGINT, WATERMARK FOR ts AS ts - 20)
WITH (connector = 'files', path = 'calls');
"""
QUERIES = {
    "rows": "SELECT ts, district, kind, v + 1 AS w FROM calls WHERE v > 1",
    "windows": "SELECT district, kind, window_start AS ts, count(*) AS n FROM TUMBLE(calls, ts, 5) GROUP BY 1, 2, 3",
}
BATCH = {
    "rows": QUERIES["rows"],
    "windows": "SELECT district, kind, ts - ts % 5 AS ts, count(*) AS n FROM calls GROUP BY 1, 2, 3",
}
ORDERS = {
    "in_order_by = 'district'": ("district",),
    "in_order_by = 'Kind, district'": ("district", "kind"),
    "in_order = true": (),
}


class Mover:
    """Moves two groups to the next site after every epoch."""

    name = "mover"

    def decide(self, figures: RoundStats) -> Sequence[Decision]:
        directory = figures.directory
        homes = [(group, directory.home(group)) for group in directory.groups]
        return [Decision(Move(g, home, (home + 1) % directory.sites), "to see") for g, home in homes[1::9][:2]]


@pytest.fixture(autouse=True)
def rows(tmp_path: Path, random: Random, monkeypatch: pytest.MonkeyPatch) -> pa.Table:
    """Rows that come up to 20 out of order, in files of a folder, where the commands run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setitem(policies._known, "mover", Mover())
    drawn = [(t, random.randrange(9), random.choice("ab"), random.randrange(9)) for t in range(400) for _ in range(3)]
    drawn.sort(key=lambda row: row[0] + random.randrange(20))
    table = pa.table(dict(zip(["ts", "district", "kind", "v"], zip(*drawn, strict=True), strict=True)))
    Path("calls").mkdir()
    for start in range(0, 1200, 100):
        pq.write_table(table.slice(start, 100), f"calls/{start:04d}.parquet")
    return table


def published() -> pa.Table:
    """The rows of the sink in the order of its files."""
    return pa.concat_tables([pq.ParquetFile(path).read() for path in sorted(Path("out").glob("*.parquet"))])


@pytest.mark.parametrize(("query", "order"), [("rows", "any"), ("windows", "any"), ("rows", "in")])
@pytest.mark.parametrize("option", ORDERS)
def test_a_sink_in_order_is_exact_and_in_order_through_moves_and_a_restart(
    option: str, query: str, order: str, rows: pa.Table
) -> None:
    sink = f"CREATE SINK kept WITH (connector = 'files', path = 'out', {option}) AS {QUERIES[query]};"
    Path("kept.sql").write_text(SOURCE + sink)
    settings = ["rows_per_epoch=100", "policy=mover", "round=1us", f"order={order}"]
    options = [part for setting in settings for part in ("--set", setting)]
    stopped = run("kept.sql", *options, "--sites", "4", "--until", "5 epochs", "--json")
    assert last_json(stopped)["state"] == "stopped", stopped.output
    finished = last_json(run("kept.sql", *options, "--sites", "3", "--json"))
    assert (finished["state"], finished["late_rows"]) == ("finished", 0)
    assert finished["decisions"]["move"] > 0
    got = published()
    assert_same_rows(got, batch(query, rows))
    assert_in_order(got, ORDERS[option])
    assert bool(ORDERS[option]) == (_most_files_of_an_epoch() > 1)


def batch(query: str, rows: pa.Table) -> pa.Table:
    with duckdb.connect() as database:
        database.register("calls", rows)
        return database.sql(BATCH[query]).to_arrow_table()


def assert_in_order(table: pa.Table, by: tuple[str, ...]) -> None:
    last: dict[tuple[object, ...], int] = {}
    for row in table.to_pylist():
        key = tuple(row[name] for name in by)
        assert last.get(key, 0) <= row["ts"], f"{row} comes after {last[key]}"
        last[key] = row["ts"]


def _most_files_of_an_epoch() -> int:
    epochs = [path.name.partition("-")[0] for path in Path("out").glob("*.parquet")]
    return max(map(epochs.count, epochs))


def test_without_the_option_rows_are_not_in_order(rows: pa.Table) -> None:
    """So that the test above is known to be about something."""
    Path("kept.sql").write_text(
        SOURCE + f"CREATE SINK kept WITH (connector = 'files', path = 'out') AS {QUERIES['rows']};"
    )
    run("kept.sql", "--sites", "4")
    times = published()["ts"].to_pylist()
    assert any(a > b for a, b in pairwise(times))


@pytest.mark.parametrize("order", ["any", "in"])
def test_explain_says_where_one_site_remains_and_why(order: str) -> None:
    one = "exchange to one site of subquery 0: the order is over all rows"
    for option, by in ORDERS.items():
        sink = f"CREATE SINK kept WITH (connector = 'files', path = 'out', {option}) AS {QUERIES['rows']};"
        Path("kept.sql").write_text(f"SET order = '{order}';\n{SOURCE}{sink}")
        shown = penstock("explain", "kept.sql").stdout
        assert (one in shown) == ("one site" in shown) == (not by)
        assert ("in_order_by of a sink" in shown) == (not by)
        assert shown.count("rows in order of ts") == 1
