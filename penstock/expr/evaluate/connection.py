"""The DuckDB connection that evaluates expressions: one per process and thread, without access to files and the
network."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any

import duckdb
import pyarrow as pa

_local = threading.local()
_inherited: list[duckdb.DuckDBPyConnection] = []  # connections of the parent process, kept so that none is closed


def connection() -> duckdb.DuckDBPyConnection:
    """Return the connection of this thread. Opens it on first use and again after a fork."""
    opened: tuple[int, duckdb.DuckDBPyConnection] | None = getattr(_local, "opened", None)
    if opened is not None and opened[0] == os.getpid():
        return opened[1]
    if opened is not None:
        _inherited.append(opened[1])  # closing could deadlock: a thread of the parent may hold its locks
    _local.opened = (os.getpid(), _open())
    return _local.opened[1]


def select(inputs: pa.Table, expressions: Sequence[Any]) -> tuple[list[str], pa.Table]:
    """Evaluate DuckDB expressions over a table; return their DuckDB types, and a table of their values in the same row
    order. Raises duckdb.Error."""
    named = [expression.alias(f"e{position}") for position, expression in enumerate(expressions)]
    try:
        relation = connection().from_arrow(inputs).select(*named)
        return [str(found) for found in relation.types], relation.to_arrow_table()
    except (duckdb.InternalError, duckdb.FatalException):
        _local.opened = None  # after such an error DuckDB refuses all further work on the database
        raise


def _open() -> duckdb.DuckDBPyConnection:
    """Open an in-memory database in UTC with one thread, and lock its configuration."""
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
