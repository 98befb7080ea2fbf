"""One query of a system that follows a folder, from empty folders to checked results."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import duckdb
import pyarrow.parquet as pq

from penstock_bench.check.digest import digest, parquet
from penstock_bench.experiments.live_run import KEYS, PERIOD, Order
from penstock_bench.experiments.part import Part


@dataclass(frozen=True)
class Turn:
    """`rows` is the folder that the system follows. What the turn leaves in `folder` belongs to it alone."""

    part: Part
    system: str
    folder: Path
    master: str
    cores: int

    @property
    def rows(self) -> Path:
        return self.folder / "rows"

    @property
    def results(self) -> Path:
        return self.folder / "out" / "rows"

    def begin(self) -> None:
        self._order("begin")

    def until_through(self) -> float:
        """The seconds from the beginning until all rows that are there are through."""
        return self._order("until", sum(pq.read_metadata(path).num_rows for path in self.rows.glob("*.parquet")))

    def end(self) -> None:
        self._order("end")

    def _order(self, do: Literal["begin", "until", "end"], count: int = 0) -> float:
        rows, out, scratch = str(self.rows), str(self.folder / "out"), str(self.folder.parent / self.system)
        order = Order(do, self.system, rows, out, scratch, count, self.master, self.cores)
        return self.part.ask(order, float)

    def equal(self) -> bool:
        """Whether the results are those of all windows but the last, which no row has completed."""
        exact, close = ("k", "epoch_us(window_start)", "n::BIGINT"), ["s"]
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            expected = digest(connection, f"({_answer(self.rows)})", exact, close)
            return expected.same(digest(connection, parquet(self.results), exact, close))


def _answer(rows: Path) -> str:
    last = f"(SELECT max(epoch_us(ts)) // {PERIOD} FROM {parquet(rows)})"
    return f"""SELECT k % {KEYS} AS k, make_timestamp(epoch_us(ts) // {PERIOD} * {PERIOD}) AS window_start,
                      count(*) AS n, sum(v) AS s
               FROM {parquet(rows)} WHERE epoch_us(ts) // {PERIOD} < {last} GROUP BY ALL"""
