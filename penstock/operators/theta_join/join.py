"""The theta join: pairs of rows of two inputs within a band of time that satisfy an arbitrary condition.

The join is distributed over a grid of cells (`grid`), whose shape the engine chooses. In a cell, fresh rows are joined
with the stored rows of the other port and with each other (`pairs`), and are then stored as long as a future row may
match them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from penstock.expr.tree import Expr
from penstock.operators.arrange import gathered, hashes_of, merged, times_of
from penstock.operators.bands import Band, Leads, leads
from penstock.operators.generations import Generational
from penstock.operators.protocol import (
    UNCOUNTED,
    OutputCounts,
    Portion,
    Stored,
    WorkResult,
)
from penstock.operators.theta_join.condition import check_condition
from penstock.operators.theta_join.grid import OnGrid, check_grid, codes_of, with_code
from penstock.operators.theta_join.pairs import Encounter, joined
from penstock.operators.theta_join.ranges import band_ranges
from penstock.operators.theta_join.schema import check_inputs, stored_columns
from penstock.progress.mark import MAX_TIME, MIN_TIME, Marks, saturate
from penstock.state.grid import Grid, grid_for
from penstock.types import time_values

_TOGETHER = 1 << 16  # small tables are merged up to this number of rows


@dataclass(frozen=True)
class GridJoin(OnGrid, Generational):
    """The inner join of two inputs on an arbitrary condition.

    The columns of the two schemas have different names, except helper columns that begin with #. `payload` are the
    columns of each input in the result. `condition` is over columns of both (None: all pairs within the bands). `grid`
    is the number of rows and columns of cells; if `follows_sites`, the engine sets it.
    """

    schemas: tuple[pa.Schema, pa.Schema]
    times: tuple[str, str]
    payload: tuple[tuple[str, ...], tuple[str, ...]]
    bands: tuple[Band, ...]
    condition: Expr | None
    grid: Grid = (1, 1)
    hash_bits: int = 64
    follows_sites: bool = False

    def __post_init__(self) -> None:
        check_inputs(self.schemas, self.times, self.payload)
        check_condition(self.condition, self.schemas)
        check_grid(self.grid)

    def state_schema(self, port: int) -> pa.Schema:
        return with_code(pa.schema([self.schemas[port].field(name) for name in self._columns(port)]))

    def prepare(self, port: int, rows: pa.Table) -> pa.Table:
        return self._spread(port, rows, self._columns(port))

    def arrange(self, port: int, rows: pa.Table) -> pa.Table:
        return self._spread(port, rows, self.schemas[port].names)

    def grid_for(self, sites: int) -> Grid:
        return grid_for(sites) if self.follows_sites else self.grid

    def due(self, after: Marks, upto: Marks, least: tuple[int | None, ...]) -> bool:
        return False

    def work(self, portion: Portion, counts: OutputCounts = UNCOUNTED) -> WorkResult:
        keep = tuple(self._kept(port, portion) for port in (0, 1))
        return WorkResult(self._results(portion, counts), keep)

    def expired_below(self, port: int, marks: Marks) -> int:
        other, lead = marks[1 - port], self._leads[port][1 - port]
        if other.ended:
            return MAX_TIME
        return MIN_TIME if lead is None else saturate(other.at - lead)

    def span(self, port: int) -> int:
        lead = self._leads[port][1 - port]
        return MAX_TIME if lead is None else max(1, lead)

    def output_marks(self, marks: Marks) -> Marks:
        """Return the marks on each time by itself, then the joint marks.

        A future pair contains a future row, which gives the joint marks. The time of port i in it is that of a future
        row of port i, or at most `lead` below that of a future row of the other port, which gives the marks on each
        time by itself.
        """
        alone = (min(marks[i], marks[1 - i].behind(self._leads[i][1 - i])) for i in (0, 1))
        return (*alone, *marks)

    @cached_property
    def _leads(self) -> Leads:
        return leads(2, self.bands)

    def _columns(self, port: int) -> list[str]:
        """Return the columns of a port that the result or the condition needs."""
        return stored_columns(self.schemas[port], self.payload[port], self.condition)

    def _spread(self, port: int, rows: pa.Table, columns: list[str]) -> pa.Table:
        """Return a copy of each row for every cell that needs it, with the given columns."""
        codes = codes_of(rows.select(self.schemas[port].names), self.hash_bits)
        return self.cells.spread(port, rows.select(columns), time_values(rows.column(self.times[port])), codes)

    def _kept(self, port: int, portion: Portion) -> pa.Table:
        """Return the fresh rows that future rows of the other port may match; none in a clean-up, whose rows are stored
        already."""
        fresh, marks = portion.fresh[port], portion.upto
        if portion.clean_up or marks[1 - port].ended:
            return fresh.slice(0, 0)
        alive = times_of(fresh) >= self.expired_below(port, marks)
        return fresh if alive.all() else fresh.filter(pa.array(alive))

    def _results(self, portion: Portion, counts: OutputCounts) -> Iterator[pa.Table]:
        """Yield the results of all encounters."""
        for cell, encounter in self._encounters(portion):
            for pairs in joined(encounter, self._parts, self.result_schema):
                counts.add_of_hash(cell, pairs.num_rows)
                yield pairs

    def _encounters(self, portion: Portion) -> Iterator[tuple[int, Encounter]]:
        """Yield fresh rows of port 0 with all rows of port 1 (in a clean-up, with the stored ones), and fresh rows of
        port 1 with the stored rows of port 0; cell by cell with the cell's hash, so that each pair is tested once."""
        fresh = tuple(map(by_cell, portion.fresh))
        for cell in sorted({*fresh[0], *fresh[1]}):
            for port in (0, 1):
                if cell in fresh[port]:
                    also = fresh[1].get(cell) if port == 0 and not portion.clean_up else None
                    meetings = self._meetings(port, fresh[port][cell], cell, portion.stored[1 - port], also)
                    yield from ((cell, encounter) for encounter in meetings)

    def _meetings(
        self, port: int, probes: pa.Table, cell: int, stored: Sequence[Stored], also: pa.Table | None
    ) -> Iterator[Encounter]:
        """Yield the fresh rows of a cell with the stored rows of the other port, and with the rows in `also`."""
        before, after = self._leads[1 - port][port], self._leads[port][1 - port]
        times = times_of(probes)
        first = MIN_TIME if before is None else saturate(int(times[0]) - before)
        last = MAX_TIME if after is None else saturate(int(times[-1]) + after)
        near = cell_rows_between(stored, cell, first, last)
        for partners in together([*near, *([] if also is None else [also])], self.state_schema(1 - port)):
            ranges = band_ranges(times, times_of(partners), before, after)
            yield Encounter(port, probes, partners, ranges.lo, ranges.hi)


def by_cell(table: pa.Table) -> dict[int, pa.Table]:
    """Return the rows of each cell, by the cell's hash. The table must be sorted."""
    hashes = hashes_of(table)
    cells, starts = np.unique(hashes, return_index=True)
    ends = np.append(starts[1:], len(hashes))
    return {int(c): table.slice(s, e - s) for c, s, e in zip(cells, starts, ends, strict=False)}


def cell_rows_between(stored: Iterable[Stored], cell: int, first: int, last: int) -> list[pa.Table]:
    """Return the stored rows of a cell with a time from `first` to `last`, each table in order of time."""
    near = (piece.rows for piece in stored if piece.least <= last and piece.largest >= first)
    return [rows for table in near if (rows := _between(table, cell, first, last)).num_rows]


def _between(table: pa.Table, cell: int, first: int, last: int) -> pa.Table:
    """Return the rows of a cell with a time from `first` to `last`. The table must be sorted."""
    hashes = hashes_of(table)
    start, end = (int(np.searchsorted(hashes, np.uint64(cell), side)) for side in ("left", "right"))
    times = times_of(table)[start:end]
    skipped = int(np.searchsorted(times, first, "left"))
    return table.slice(start + skipped, int(np.searchsorted(times, last, "right")) - skipped)


def together(tables: list[pa.Table], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the same rows of one cell in fewer tables. Tables that are adjacent in time are merged; each is in order of
    time."""
    by_time = sorted(tables, key=lambda table: int(times_of(table)[0]))
    return (merged(near, schema) for near in gathered(by_time, _TOGETHER, len))
