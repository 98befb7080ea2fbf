"""The join in the words of each system, and the right answer.

Three streams with equal keys, `b` and `c` within a day of `a`, which is much longer than the streams: no row is ever
forgotten. A result has a digest of all three payloads together, so that every system must keep them until it has all
three, and none has to write them.

Spark refuses a join whose input has two watermarked times, so the time of `b` is not among the columns that are joined
with `c`. Flink is asked in two ways: as interval joins one after the other, and as one join of all three, which is an
operator of its own there; it keeps no intermediate results, and knows no times.
"""

from __future__ import annotations

from pathlib import Path

from penstock_bench.check.digest import Digest, digest, parquet
from penstock_bench.check.oracle import session
from penstock_bench.peers.scale import STREAMS

BAND_DAYS = 1
_BAND = f"BETWEEN a.ts - INTERVAL '{BAND_DAYS}' DAY AND a.ts + INTERVAL '{BAND_DAYS}' DAY"
_NUMBERS = "a.sequence AS a_row, b.sequence AS b_row, c.sequence AS c_row"

JOIN = f"""
    SELECT a.key AS k, {_NUMBERS}, md5(concat(a.payload, b.payload, c.payload)) AS text
    FROM a JOIN b ON a.key = b.key AND b.ts {_BAND} JOIN c ON a.key = c.key AND c.ts {_BAND}"""

SPARK_JOIN = f"""
    SELECT a.k AS k, a_row, b_row, c.sequence AS c_row, md5(concat(a_text, b_text, c.payload)) AS text
    FROM (
        SELECT a.key AS k, a.ts AS ts, a.sequence AS a_row, b.sequence AS b_row,
            a.payload AS a_text, b.payload AS b_text
        FROM a JOIN b ON a.key = b.key AND b.ts {_BAND}
    ) a JOIN c ON a.k = c.key AND c.ts {_BAND}"""

FLINK_JOIN = JOIN.replace("a.key", "a.`key`").replace("b.key", "b.`key`").replace("c.key", "c.`key`")

FLINK_MULTI_JOIN = f"""
    SELECT a.`key` AS k, {_NUMBERS}, md5(concat(a.payload, b.payload, c.payload)) AS text
    FROM a JOIN b ON a.`key` = b.`key` JOIN c ON a.`key` = c.`key`"""

_COLUMNS = ("k", "a_row", "b_row", "c_row", "text")


def answer(rows: Path, spill: Path) -> Digest:
    """Return the digest of the right answer, by DuckDB over the files in `rows`."""
    with session(memory_limit="4GiB", temp_directory=str(spill)) as connection:
        for name in STREAMS:
            connection.read_parquet(str(rows / name / "*.parquet")).create_view(name)
        return digest(connection, f"({JOIN})", _COLUMNS)


def found(results: Path) -> Digest:
    """Return the digest of what a system has written, as Parquet files."""
    if not any(results.glob("*.parquet")):
        return Digest(0, 0, ())
    with session() as connection:
        return digest(connection, parquet(results), _COLUMNS)
