"""The experiment that moves half of the state: what it makes of its figures, and how it sees that rows are right."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from penstock.events import EpochTimed, TaskTimed
from penstock_bench.adapt.fetching import finding
from penstock_bench.adapt.fetching_rows import Lot, narrow_lots, wide_lots
from penstock_bench.adapt.fetching_run import Answer, _equal, _one_of_each, _query, _stays

MB = 1_000_000


def answer(after: tuple[float, ...], fetched: tuple[int, ...], equal: bool = True) -> Answer:
    return Answer((0.5, 0.5, 1.0), after, (0, 0, 0), fetched, 1000 * MB, 500 * MB, 1.0, equal)


def test_the_bars_are_the_slowest_epochs_and_what_was_fetched() -> None:
    found = finding(answer((1.9, 0.5, 0.5), (0, 450 * MB, 50 * MB)))
    assert found.holds
    assert [round(bar.value, 1) for bar in found.bars] == [1.9, 500.0]
    assert found.records[1]["epochs"] == 3, "it was fetched until the third"
    assert not finding(answer((2.5, 2.5, 0.5), (0, 450 * MB, 50 * MB))).holds
    assert not finding(answer((1.0, 1.0, 1.0), (0, 300 * MB, 0))).holds
    assert not finding(answer((1.0, 1.0, 1.0), (500 * MB, 0, 0), equal=False)).holds


def lots() -> tuple[list[Lot], list[Lot]]:
    wide = wide_lots([30, 30, 5, 5], 20)
    return wide, narrow_lots(wide, 10)


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """What the query gives."""
    _query(*lots(), tmp_path).start(str(tmp_path / "checkpoint"), master="inline", until="4 epochs", epoch="1ms").wait()
    return tmp_path / "rows"


def test_every_lot_has_keys_of_its_own_and_looks_up_earlier_ones() -> None:
    wide, narrow = lots()
    keys = pa.concat_tables([lot.table() for lot in wide]).column("k")
    assert keys.to_pylist() == list(range(70))
    for lot, looked_up in zip(wide, narrow, strict=True):
        found = looked_up.table().column("k").to_pylist()
        assert all(key < lot.first for key in found)
        assert len(found) == (10 if lot.first else 0)


def test_the_rows_of_the_query_are_the_batch_answer(rows: Path) -> None:
    assert _equal(*lots(), rows)


def test_a_row_too_few_and_another_text_are_seen(rows: Path) -> None:
    file = max(rows.glob("*.parquet"), key=lambda path: pq.read_metadata(path).num_rows)
    table = pq.read_table(file)
    pq.write_table(table.slice(1), file)
    assert not _equal(*lots(), rows)
    place = table.schema.get_field_index("text")
    other = pc.utf8_replace_slice(table.column("text"), 0, 1, "?")
    pq.write_table(table.set_column(place, "text", other), file)
    assert not _equal(*lots(), rows)


def epoch(*workers: str) -> EpochTimed:
    tasks = [TaskTimed(f"subquery-0-site-{n}", "site", worker, 0.0, 1.0, {}) for n, worker in enumerate(workers)]
    return EpochTimed(1, 1.0, {}, (*tasks, TaskTimed("split-0", "route", "c", 0.0, 1.0, {})))


def test_where_sites_are() -> None:
    assert _stays([epoch("a", "b"), epoch("a", "b"), epoch("b", "b")]) == 0.75
    assert _one_of_each(epoch("a", "a", "b", "b").tasks[:-1]) == (0, 2)
