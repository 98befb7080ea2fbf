"""Drives an operator that only closes as the engine does, but with every freedom the engine has taken at random.

State is immutable runs. Ranges of hashes have marks of their own, lag behind and are cut. Runs are dropped once all in
them has expired, and combined with each other in any choice, before or after what has expired is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

import numpy as np
import pyarrow as pa

from penstock.operators.arrange import hashes_of, times_of
from penstock.operators.protocol import UNCOUNTED, Operator, OutputCounts, Portion, Stored
from penstock.progress.mark import BEGIN, Marks
from penstock.state.hash_ranges import EVERYTHING, HashRange
from penstock.types import time_values


@dataclass
class ClosingDriver:
    """Invariant: `ranges` cover all hashes without overlap; each has its marks."""

    operator: Operator
    random: Random
    runs: list[pa.Table] = field(default_factory=list)
    ranges: dict[HashRange, Marks] = field(default_factory=dict)
    results: list[pa.Table] = field(default_factory=list)
    counts: OutputCounts = UNCOUNTED

    def __post_init__(self) -> None:
        self.ranges[EVERYTHING] = (BEGIN,) * self.operator.tracks

    def epoch(self, rows: pa.Table, upto: Marks, *, lag: float = 0.3) -> None:
        """Takes rows in and works up to the marks; each range lags behind with a probability."""
        self._arrive(rows)
        self._cut_a_range()
        promised = self.operator.output_marks(self.low_water())
        for part, after in list(self.ranges.items()):
            if self.random.random() >= lag:
                self._work(part, after, upto, promised)
        self._drop()
        self._compact()

    def low_water(self) -> Marks:
        return tuple(min(column) for column in zip(*self.ranges.values(), strict=True))

    def all_results(self) -> pa.Table:
        return pa.concat_tables([self.operator.result_schema.empty_table(), *self.results])

    def _arrive(self, rows: pa.Table) -> None:
        cut = self.random.randint(0, rows.num_rows)
        halves = [self._prepared(part) for part in (rows.slice(0, cut), rows.slice(cut))]
        for table in [self.operator.combine(0, halves)] if self.random.random() < 0.5 else halves:
            self._store(table)

    def _prepared(self, rows: pa.Table) -> pa.Table:
        if self.random.random() < 0.5:
            return self.operator.prepare(0, rows)
        return self.operator.prepare_arranged(0, self.operator.arrange(0, rows))

    def _store(self, table: pa.Table) -> None:
        assert table.schema.equals(self.operator.state_schema(0))
        order = list(zip(hashes_of(table).tolist(), times_of(table).tolist(), strict=True))
        assert order == sorted(order)
        if table.num_rows:
            self.runs.append(table)

    def _cut_a_range(self) -> None:
        part = self.random.choice(list(self.ranges))
        if len(self.ranges) < 5 and part.high - part.low > 1:
            marks, middle = self.ranges.pop(part), self.random.randrange(part.low + 1, part.high)
            self.ranges |= {HashRange(part.low, middle): marks, HashRange(middle, part.high): marks}

    def _work(self, part: HashRange, after: Marks, upto: Marks, promised: Marks) -> None:
        stored = [self._slice(run, part) for run in self.runs]
        filled = [piece for piece in stored if piece.rows.num_rows]
        least = min((piece.least for piece in filled), default=None)
        portion = Portion((stored,), (self.operator.state_schema(0).empty_table(),), after, upto)
        done = self.operator.work(portion, self.counts)
        results, (keep,) = list(done.results), done.keep
        if not self.operator.due(after, upto, (least,)):
            assert not sum(table.num_rows for table in results) + keep.num_rows
        for table in results:
            self._check(table, promised)
        self.results += results
        self._store(keep)
        assert not keep.num_rows or int(times_of(keep).min()) >= self.operator.expired_below(0, upto)
        self.ranges[part] = upto

    def _slice(self, run: pa.Table, part: HashRange) -> Stored:
        rows = part.rows(hashes_of(run))
        times = times_of(run)  # of the whole run: the bounds of a slice may be wide
        return Stored(run.slice(rows.start, rows.stop - rows.start), int(times.min()), int(times.max()))

    def _check(self, results: pa.Table, promised: Marks) -> None:
        """No result lies below what was promised before."""
        assert results.schema.equals(self.operator.result_schema)
        names = self.operator.output_times
        assert len(names) == len(promised)
        alone = {name: mark for name, mark in zip(names, promised, strict=True) if name}
        times = {name: time_values(results[name]) for name in alone}
        for name, mark in alone.items():
            assert not len(times[name]) or (not mark.ended and times[name].min() >= mark.at)
        if joint := promised[len(alone) :]:
            columns = list(times.values())
            below = [np.full(len(t), m.ended) | (t < m.at) for t, m in zip(columns, joint, strict=True)]
            assert not np.logical_and.reduce(below).any()

    def _drop(self) -> None:
        below = self.operator.expired_below(0, self.low_water())
        self.runs = [run for run in self.runs if int(times_of(run).max()) >= below]

    def _compact(self) -> None:
        if self.random.random() < 0.4:
            return
        chosen = [self.random.random() < 0.6 for _ in self.runs]
        group = [run for run, flag in zip(self.runs, chosen, strict=True) if flag]
        self.runs = [run for run, flag in zip(self.runs, chosen, strict=True) if not flag]
        early, late = self.random.random() < 0.3, self.random.random() < 0.5
        merged = self.operator.combine(0, [self._alive(run) if early else run for run in group])
        self._store(self._alive(merged) if late else merged)

    def _alive(self, run: pa.Table) -> pa.Table:
        return run.filter(pa.array(times_of(run) >= self.operator.expired_below(0, self.low_water())))


def cut(rows: pa.Table, places: list[int]) -> list[pa.Table]:
    """The rows in pieces, cut at some places; a piece may be empty."""
    borders = [0, *sorted(min(place, rows.num_rows) for place in places), rows.num_rows]
    return [rows.slice(a, b - a) for a, b in pairwise(borders)]
