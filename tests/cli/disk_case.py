"""What the tests of disks at the command line share: an input in several files, a script, and its batch answer."""

from __future__ import annotations

from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.testing import assert_same_rows

EPOCHS = 8  # one for each file
_ROWS = 400
_QUERY = "SELECT k, window_start, count(*) AS n, max(note) AS note FROM {} GROUP BY k, window_start"
SOURCE = """CREATE SOURCE seen (ts TIMESTAMP, k BIGINT, note VARCHAR, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH (connector = 'files', path = 'in/*.parquet');
"""
SELECT = _QUERY.format("TUMBLE(seen, ts, INTERVAL '20' SECOND)")


def write_input(random: Random) -> None:
    """Rows of which each keeps some bytes of state, in files that are read one after another."""
    Path("in").mkdir()
    for number in range(EPOCHS):
        times = sorted(random.randrange(number * 10**7, (number + 1) * 10**7) for _ in range(_ROWS))
        columns = {
            "ts": pa.array(times, pa.timestamp("us")),
            "k": [random.randrange(300) for _ in times],
            "note": [random.randbytes(40).hex() for _ in times],
        }
        pq.write_table(pa.table(columns), f"in/{number}.parquet")


def write_script(results: Path) -> None:
    sink = f"CREATE SINK counted WITH (connector = 'files', path = '{results}') AS {SELECT};\n"
    Path("seen.sql").write_text(f"SET rows_per_epoch = 1;\n{SOURCE}{sink}")


def answer() -> pa.Table:
    """What the query gives, in one go."""
    windows = "(SELECT *, time_bucket(INTERVAL '20' SECOND, ts) AS window_start FROM 'in/*.parquet')"
    return duckdb.sql(_QUERY.format(windows)).to_arrow_table()


def assert_answered(results: Path) -> None:
    found = pa.concat_tables([pq.read_table(file) for file in sorted(results.glob("*.parquet"))])
    wanted = answer()
    assert wanted.num_rows > 100
    assert_same_rows(found.select(wanted.column_names), wanted.cast(found.select(wanted.column_names).schema))


def refusal(exit_code: int, output: str) -> str:
    """What a command says that a disk has ended: in three parts, with no trace; as one line."""
    said = " ".join(output.split())
    assert exit_code == 1, said
    assert "Traceback" not in said
    assert [part in said for part in ("error: ", "detail: ", "hint: ")] == [True] * 3, said
    return said
