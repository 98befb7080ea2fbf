"""The DuckDB connection that evaluates expressions: one per process and thread, closed to files and to the network."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any

import duckdb
import pyarrow as pa

_local = threading.local()
_inherited: list[duckdb.DuckDBPyConnection] = []  # see `connection`


def connection() -> duckdb.DuckDBPyConnection:
    """This thread's connection, opened at first use and again after a fork."""
    opened: tuple[int, duckdb.DuckDBPyConnection] | None = getattr(_local, "opened", None)
    if opened is not None and opened[0] == os.getpid():
        return opened[1]
    if opened is not None:
        _inherited.append(opened[1])  # never closed here: its locks may be held by a thread that only the parent has
    _local.opened = (os.getpid(), _open())
    return _local.opened[1]


def select(inputs: pa.Table, expressions: Sequence[Any]) -> tuple[list[str], pa.Table]:
    """The values of DuckDB expressions, row for row, and the types DuckDB gives them. Failures are duckdb.Error."""
    named = [expression.alias(f"e{position}") for position, expression in enumerate(expressions)]
    try:
        relation = connection().from_arrow(inputs).select(*named)
        return [str(found) for found in relation.types], relation.to_arrow_table()
    except (duckdb.InternalError, duckdb.FatalException):
        _local.opened = None  # DuckDB serves nothing more on a database after such an error
        raise


def _open() -> duckdb.DuckDBPyConnection:
    opened = duckdb.connect(
        ":memory:",
        config={
            "threads": 1,
            "preserve_insertion_order": True,
            "enable_external_access": False,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        },
    )
    opened.execute("SET TimeZone = 'UTC'")
    opened.execute("SET lock_configuration = true")
    return opened
