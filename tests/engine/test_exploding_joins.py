"""A join that is about to make very many rows of a key says so first, and then makes them all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import penstock as ps
from penstock.api.streams import Stream
from penstock.cli.main import app
from penstock.events import EpochCommitted, JoinExplodes
from penstock.operators.band_join import join as join_explosion
from penstock.operators.protocol import Portion, Stored
from penstock.plan.compile.subqueries import compile_query


def many(name: str, key: str, rows: int) -> Stream:
    table = pa.table({"ts": np.arange(rows) % 100, key: [7] * (rows - 5) + [None, 1, 2, 3, 4]})
    return ps.read.table(table, time="ts", name=name)


def pairs(rows: int, within: int = 1000) -> Stream:
    return many("left", "k", rows).join(many("right", "k", rows), on="k", within=within)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join_explosion, "COMBINATIONS", 20_000)


def test_a_key_is_told_of_with_its_rows_and_an_estimate_before_its_rows_are_made(small: None) -> None:
    run = pairs(200).to.memory().start(master="inline", sites=3).wait()
    told = [event for event in run.events if isinstance(event, JoinExplodes)]
    assert [(event.key, event.rows, event.combinations) for event in told] == [("7", (195, 195), 195 * 195)]
    epochs = [event for event in run.events if isinstance(event, EpochCommitted)]
    assert sum(event.rows_out for event in epochs if event.epoch <= told[0].epoch) <= 4  # of other keys
    assert run.result().num_rows == 195 * 195 + 4
    assert "about 38,025 rows of key 7 (195 x 195 rows)" in run.warnings[0]


def test_a_band_that_leaves_few_rows_is_no_reason_to_warn(small: None) -> None:
    run = pairs(200, within=0).to.memory().start(master="inline").wait()
    assert run.warnings == ()
    assert run.result().num_rows == 195 * 2 - 5 + 4


def test_the_command_line_says_so(small: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        pq.write_table(pa.table({"ts": pa.array(range(200), pa.timestamp("us")), "k": [7] * 200}), f"{name}.parquet")
    declared = "".join(
        f"CREATE SOURCE {n} (WATERMARK FOR ts AS ts) WITH (connector = 'files', path = '{n}.parquet');\n" for n in "ab"
    )
    Path("join.sql").write_text(
        f"{declared}CREATE SINK out WITH (connector = 'files', path = 'out') AS SELECT a.ts, b.ts AS other "
        "FROM a JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL '1' SECOND AND a.ts + INTERVAL '1' SECOND;"
    )
    result = CliRunner().invoke(app, ["run", "join.sql", "--master", "inline"])
    assert result.exit_code == 0
    said = "warning: the join of subquery 0 makes about 40,000 rows of key 7 (200 x 200 rows)"
    assert result.stderr.count(said) == 1
    assert pq.read_table("out").num_rows == 40_000


def test_two_hundred_thousand_rows_of_a_key_on_both_sides_are_found_without_making_a_pair() -> None:
    operator = compile_query(pairs(10, within=10**6).to.memory().sink).program.subqueries[0].operator
    rows = pa.table({"ts": np.arange(200_000), "k": np.full(200_000, 7)})
    left = operator.prepare(0, rows.select(["ts", "k"]))
    right = operator.prepare(1, rows.select(["ts", "k"]).rename_columns(["right_ts", "right_k"]))
    portion = Portion(((Stored(left, 0, 200_000),), ()), (left.slice(0, 0), right), (), ())
    found = operator.explosion(portion, ())
    assert (found.key, found.rows, found.combinations) == ("7", (200_000, 200_000), 40_000_000_000)
    assert operator.explosion(portion, {found.hash}) is None
