"""A workload: one question, in the words of every system that is asked it. The texts differ; the answer must not.

All texts name the streams as tables. A system's clock starts with its query, and every row of every stream is read.
"""

from __future__ import annotations

from dataclasses import dataclass

SLACK_SECONDS = 2


@dataclass(frozen=True)
class Refused:
    """Why a system cannot answer a workload: a limit of that system, not of this benchmark."""

    reason: str


@dataclass(frozen=True)
class Workload:
    """A named question and its texts: a SELECT each, with the same result columns.

    `spark` is asked over streaming views with a watermark of SLACK_SECONDS on their time columns, in append mode;
    `spark_panes` is a rewriting by hand that an expert would try, where there is one. `flink` is asked over tables
    whose time column is event time with the same watermark. `duckdb` is the batch answer.

    Result rows are a multiset. They are told apart by `identity`, whose times are compared as microseconds; `exact`
    columns must be equal, `close` columns equal at 1e-9 relative. `closed` is a condition of DuckDB over result rows:
    those that a system gives which emits only what its watermark has closed, {mark} (microseconds) being that watermark
    after all input. None: all rows. `share` is the part of the benchmark's rows that it reads of a stream."""

    name: str
    title: str
    streams: tuple[str, ...]
    duckdb: str
    penstock: str
    spark: str | Refused
    flink: str | Refused
    identity: tuple[str, ...]
    exact: tuple[str, ...] = ()
    close: tuple[str, ...] = ()
    closed: str | None = None
    spark_panes: str | None = None
    share: float = 1.0
