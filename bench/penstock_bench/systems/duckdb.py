"""DuckDB in batch as a system: no stream, no order, no recovery. It shows the limit of the machine, not a peer."""

from __future__ import annotations

import time
from pathlib import Path

import duckdb

from penstock_bench.check.oracle import batch_answer, rows_in, session
from penstock_bench.system import Limits, Outcome, System, count_rows
from penstock_bench.workload import Workload


class DuckdbBatch:
    """The batch answer over the same files, written as one Parquet file in whatever order is fastest."""

    name = "duckdb"

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._session: duckdb.DuckDBPyConnection | None = None

    def prepare(self) -> None:
        self._session = session(self._limits.cores)

    def run(self, workload: Workload, data_dir: Path, out_dir: Path) -> Outcome:
        assert self._session is not None, "prepare comes first"
        result = out_dir / "rows"
        result.mkdir()
        began = time.perf_counter()
        batch_answer(self._session, workload, data_dir).write_parquet(
            str(result / "answer.parquet"), compression="uncompressed"
        )
        seconds = time.perf_counter() - began
        return Outcome(seconds, rows_in(workload, data_dir), count_rows(result), str(result))

    def close(self) -> None:
        if self._session is not None:
            self._session.close()


def duckdb_batch(limits: Limits, scratch: Path) -> System:
    return DuckdbBatch(limits)
