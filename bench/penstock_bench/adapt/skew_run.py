"""The process of `adapt-skew`: runs of a workload as fast as it goes. Results are compared with the batch answer by
digests, and that of the batch answer is computed once for all runs over the same rows."""

from __future__ import annotations

from functools import lru_cache, partial
from pathlib import Path

import duckdb

from penstock_bench.adapt.watched_run import Question, watched
from penstock_bench.check.compare import plain
from penstock_bench.check.digest import Digest, digest
from penstock_bench.check.oracle import batch_answer, found_rows, session
from penstock_bench.experiments.part import serve
from penstock_bench.workload import Workload
from penstock_bench.workloads import workload_named


def same(rows: Path, workload: Workload, data: Path) -> bool:
    """Whether the results are the batch answer."""
    expected = answer(workload.name, data)
    with session() as connection:
        return expected.rows > 0 and expected.same(_digest(connection, found_rows(connection, rows), workload))


@lru_cache(maxsize=32)
def answer(workload: str, data: Path) -> Digest:
    with session() as connection:
        return _digest(connection, batch_answer(connection, workload_named(workload), data), workload_named(workload))


def _digest(connection: duckdb.DuckDBPyConnection, rows: duckdb.DuckDBPyRelation, workload: Workload) -> Digest:
    plain(rows, workload).create_view("digested")
    return digest(connection, "digested", (*workload.identity, *workload.exact), workload.close)


if __name__ == "__main__":
    serve(Question, partial(watched, right=same))
