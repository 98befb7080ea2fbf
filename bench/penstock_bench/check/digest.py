"""Whether two relations have the same rows, however many: by sums over the hashes of rows.

Rows are a multiset: a row that is missing, doubled or changed changes the count or the sum. Columns of doubles are
compared by their sums, at 1e-9 relative; each value weighs by the hash of its row, so that it counts whose it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import duckdb

_WEIGHTS = 1009


@dataclass(frozen=True)
class Digest:
    rows: int
    hashes: int
    sums: tuple[float, ...]

    def same(self, other: Digest) -> bool:
        close = all(math.isclose(a, b, rel_tol=1e-9) for a, b in zip(self.sums, other.sums, strict=True))
        return self.rows == other.rows and self.hashes == other.hashes and close


def digest(
    connection: duckdb.DuckDBPyConnection, relation: str, exact: Sequence[str], close: Sequence[str] = ()
) -> Digest:
    """Of `relation`, a table or a SELECT in brackets. `exact` are expressions: cast what systems type differently."""
    row = f"hash({', '.join(exact)})"
    sums = "".join(f", coalesce(sum({column} * (1 + {row} % {_WEIGHTS})), 0)" for column in close)
    ((rows, hashes, *rest),) = connection.execute(
        f"SELECT count(*), coalesce(sum({row}), 0){sums} FROM {relation}"
    ).fetchall()
    return Digest(int(rows), int(Decimal(hashes)), tuple(float(value) for value in rest))


def parquet(folder: Path) -> str:
    """All Parquet files directly in a folder, as a relation."""
    return f"read_parquet('{_quoted(folder)}/*.parquet')"


def _quoted(folder: Path) -> str:
    return str(folder).replace("'", "''")
