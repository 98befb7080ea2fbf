"""Flink itself, where it is installed (`make flink`): its answers are the batch answer.

Marked slow for the sake of `make test`: `pytest tests/bench/test_flink_live.py` runs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock_bench.check.oracle import equal, rows_in
from penstock_bench.flink.config import checkpointed
from penstock_bench.flink.system import Flink, available
from penstock_bench.rows.data import ensure_data
from penstock_bench.system import Limits
from penstock_bench.workloads import workload_named

pytestmark = [pytest.mark.slow, pytest.mark.skipif(available() is not None, reason=f"{available()}")]

ROWS = 20_000


@pytest.fixture(scope="module")
def flink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flink]:
    system = Flink("flink", Limits(memory_gib=1), tmp_path_factory.mktemp("flink"), only=checkpointed(2))
    system.prepare()
    yield system
    system.close()


@pytest.mark.parametrize("name", ["tumble", "band", "q3"])
def test_the_answer_is_the_batch_answer(
    flink: Flink, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock_bench.flink.system.WARM_ROUNDS", 1)
    workload = workload_named(name)
    data, out = ensure_data(tmp_path / "data", ROWS, workload.streams), tmp_path / "out"
    out.mkdir()
    outcome = flink.run(workload, data, out)
    compared = equal(Path(outcome.result_path), workload, data)
    assert compared.equal, compared.detail
    assert outcome.rows_in == rows_in(workload, data)
