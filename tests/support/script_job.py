"""A script over a few files and its batch answer, for tests that run commands as a user does."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.testing.rows import assert_same_rows

_FILES, _ROWS, _KEYS = 8, 400, 300
_QUERY = "SELECT k, window_start, count(*) AS n, max(note) AS note FROM {} GROUP BY k, window_start"
_SOURCE = """CREATE SOURCE seen (ts TIMESTAMP, k BIGINT, note VARCHAR, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH (connector = 'files', path = '{path}');
"""
_TUMBLE = "TUMBLE(seen, ts, INTERVAL '20' SECOND)"
_BUCKETS = "(SELECT *, time_bucket(INTERVAL '20' SECOND, ts) AS window_start FROM '{path}')"


@dataclass(frozen=True)
class ScriptJob:
    """A folder with `in/`, the script `seen.sql` and, after a run, `results/rows`. Each epoch reads one file."""

    folder: Path

    @property
    def results(self) -> Path:
        """Return the folder of the results."""
        return self.folder / "results" / "rows"

    @property
    def select(self) -> str:
        """Return the query without a sink."""
        return _SOURCE.format(path=self._path) + _QUERY.format(_TUMBLE)

    @property
    def _path(self) -> Path:
        return self.folder / "in" / "*.parquet"

    def write(self, random: Random) -> None:
        """Write the input, each row of which keeps some bytes of state, and the script."""
        (self.folder / "in").mkdir()
        for number in range(_FILES):
            times = sorted(random.randrange(number * 10**7, (number + 1) * 10**7) for _ in range(_ROWS))
            columns = {
                "ts": pa.array(times, pa.timestamp("us")),
                "k": [random.randrange(_KEYS) for _ in times],
                "note": [random.randbytes(40).hex() for _ in times],
            }
            pq.write_table(pa.table(columns), self.folder / "in" / f"{number}.parquet")
        sink = f"CREATE SINK counted WITH (connector = 'files', path = '{self.results}') AS {_QUERY.format(_TUMBLE)};\n"
        (self.folder / "seen.sql").write_text("SET rows_per_epoch = 1;\n" + _SOURCE.format(path=self._path) + sink)

    def answer(self) -> pa.Table:
        """Return the batch answer."""
        found: pa.Table = duckdb.sql(_QUERY.format(_BUCKETS.format(path=self._path))).to_arrow_table()
        return found

    def assert_answered(self) -> None:
        """Check that the published rows are the batch answer."""
        found = pa.concat_tables([pq.read_table(file) for file in sorted(self.results.glob("*.parquet"))])
        wanted = self.answer()
        found = found.select(wanted.column_names)
        assert_same_rows(found, wanted.cast(found.schema))


def refusal(exit_code: int, output: str) -> str:
    """Check that a command failed with an error in three parts and no traceback; return its output as one line."""
    said = " ".join(output.split())
    assert exit_code == 1, said
    assert "Traceback" not in said, said
    assert [part in said for part in ("error: ", "detail: ", "hint: ")] == [True] * 3, said
    return said
