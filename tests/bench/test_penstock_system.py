"""Penstock is asked the workloads in this process, without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock_bench.check.oracle import equal, rows_in
from penstock_bench.rows.data import ensure_data
from penstock_bench.rows.stream import FILES
from penstock_bench.system import Limits
from penstock_bench.systems.penstock import Penstock, query_of, script_text
from penstock_bench.workloads import WORKLOADS, joins, rows, windows

ROWS = 30_000
OWN = [workload.name for family in (windows, joins, rows) for workload in family.ALL]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ensure_data(tmp_path_factory.mktemp("data"), ROWS, ("a", "b", "c", "wide"))


@pytest.mark.parametrize("name", OWN)
def test_penstock_gives_the_batch_answer(name: str, data: Path, tmp_path: Path) -> None:
    workload = WORKLOADS[name]
    done = Penstock("penstock-files", Limits(), file_epochs=True, master="inline").run(workload, data, tmp_path)
    compared = equal(Path(done.result_path), workload, data)
    assert compared.equal, compared.detail
    assert done.rows_in == rows_in(workload, data) == ROWS * len(workload.streams)
    assert compared.detail.startswith(f"{done.rows_out} rows right")
    assert done.epochs == FILES


def test_left_to_itself_penstock_takes_more_than_a_file(data: Path, tmp_path: Path) -> None:
    done = Penstock("penstock", Limits(), master="inline").run(WORKLOADS["tumble"], data, tmp_path)
    assert 1 <= done.epochs < FILES


def test_rows_out_of_order_below_the_slack_change_nothing(tmp_path: Path) -> None:
    workload = WORKLOADS["tumble"]
    data = ensure_data(tmp_path / "data", ROWS, workload.streams, disorder=1.9)
    ready = query_of(workload, data, tmp_path / "out")
    run = ready.start(str(tmp_path / "checkpoint"), master="inline", rows_per_epoch=ROWS // FILES // 8).wait()
    assert (run.progress.epochs, run.progress.late_rows) == (8 * FILES, 0)  # an epoch ends within the disorder
    compared = equal(tmp_path / "out", workload, data)
    assert compared.equal, compared.detail


def test_a_quote_in_a_path_stays_in_the_path() -> None:
    text = script_text(WORKLOADS["tumble"], Path("it's"), Path("out"))
    assert "path = 'it''s/a/*.parquet'" in text
