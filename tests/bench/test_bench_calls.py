"""Call records, and StreamCloud's full query over them: Penstock against DuckDB, and DuckDB against plain loops."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.types import time_values
from penstock_bench.check.oracle import batch_answer, equal, session
from penstock_bench.rows.calls import CALL_RECORDS_SCHEMA, CALLS
from penstock_bench.rows.data import ensure_data
from penstock_bench.rows.stream import FILE_SECONDS, FILES, SECOND, START
from penstock_bench.system import Limits
from penstock_bench.systems.penstock import Penstock
from penstock_bench.workloads.calls import CALLS as WORKLOAD

TOTAL = 12_000


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ensure_data(tmp_path_factory.mktemp("calls"), TOTAL, ("calls",))


def all_calls() -> pa.Table:
    return pa.concat_tables(CALLS.rows(TOTAL, file) for file in range(FILES))


@pytest.mark.parametrize("disorder", [0.0, 1.9])
def test_penstock_gives_the_batch_answer_in_several_epochs(data: Path, tmp_path: Path, disorder: float) -> None:
    read = ensure_data(tmp_path / "data", TOTAL, ("calls",), disorder)
    (tmp_path / "out").mkdir()
    outcome = Penstock("penstock", Limits(), file_epochs=True, master="inline").run(WORKLOAD, read, tmp_path / "out")
    compared = equal(Path(outcome.result_path), WORKLOAD, data)
    assert compared.equal, compared.detail
    assert outcome.epochs >= FILES


def soon_after(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return timedelta(0) < other["ts"] - one["ts"] <= timedelta(minutes=1)


def too_fast(one: dict[str, Any], other: dict[str, Any]) -> bool:
    kilometres = ((one["x"] - other["x"]) ** 2 + (one["y"] - other["y"]) ** 2) ** 0.5
    return bool(kilometres > 0.5 * abs(one["started_ms"] - other["started_ms"]) / 1000)


def suspicious_calls() -> list[dict[str, Any]]:
    """The later call of each suspicious pair."""
    by_caller: dict[int, list[dict[str, Any]]] = {}
    for call in all_calls().to_pylist():
        if call["duration"] > 180:
            by_caller.setdefault(call["caller"], []).append(call)
    pairs = (pair for calls in by_caller.values() for pair in permutations(calls, 2))
    minute = timedelta(minutes=1)
    return [
        late for early, late in pairs if timedelta(0) < late["ts"] - early["ts"] <= minute and too_fast(early, late)
    ]


def test_the_batch_answer_counts_callers_who_were_too_fast_twice(data: Path) -> None:
    pairs: Counter[tuple[int, int]] = Counter()
    for call in suspicious_calls():
        last = (call["ts"] - datetime(1970, 1, 1)) // timedelta(seconds=10) * 10
        pairs.update((call["caller"], last - 10 * step) for step in range(6))
    wanted: dict[tuple[int, int], tuple[int, int]] = {}
    for (caller, start), n in pairs.items():
        if n >= 2:
            callers, so_far = wanted.get((caller % 100, start), (0, 0))
            wanted[caller % 100, start] = callers + 1, so_far + n
    with session() as connection:
        found = batch_answer(connection, WORKLOAD, data).project(
            "exchange, epoch_us(window_start) // 1000000, callers, pairs, mean"
        )
        rows = found.fetchall()
    assert {(exchange, start): (callers, n) for exchange, start, callers, n, _ in rows} == wanted
    assert all(mean > 180 for *_, mean in rows)


def test_a_file_of_calls_has_its_own_seconds_in_order() -> None:
    for file in range(FILES):
        rows = CALLS.rows(TOTAL + 7, file)
        since = time_values(rows["ts"]) - START
        assert rows.schema.equals(CALL_RECORDS_SCHEMA)
        assert np.all(np.diff(since) >= 0)
        assert np.all(since // (FILE_SECONDS * SECOND) == file)
    assert CALLS.rows(TOTAL, 3).equals(CALLS.rows(TOTAL, 3))


def test_a_record_is_sent_when_its_call_ends() -> None:
    calls = all_calls()
    ended = calls["started_ms"].to_numpy() + np.round(calls["duration"].to_numpy() * 1000)
    assert np.array_equal(ended * 1000, time_values(calls["ts"]))


def test_callers_have_as_many_calls_at_any_size() -> None:
    for total in (4_000, TOTAL):
        callers = pa.concat_tables(CALLS.rows(total, file) for file in range(FILES))["caller"].to_numpy()
        assert len(np.unique(callers)) == total // 40
