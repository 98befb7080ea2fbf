"""Runs an operator of one port and one track as an engine might: in random pieces, over random hash ranges, with work
put off at random, runs compacted and dropped, and marks that go as far as the rows still to come allow."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from penstock.operators.arrange import hashes_of, merged
from penstock.operators.protocol import UNCOUNTED, Operator, OutputCounts, Portion, ProbingOperator, Stored
from penstock.progress.mark import BEGIN, END, Mark, at
from penstock.state.hash_ranges import EVERYTHING, HashRange
from penstock.types import time_values

DUCKDB = duckdb.connect(config={"threads": 1})
NAN = float("nan")
VALUES: dict[pa.DataType, list[Any]] = {
    pa.int8(): [0, 1, -1, 127, -128],
    pa.int64(): [0, 1, -3, 2**63 - 1, -(2**63)],
    pa.float32(): [0.0, -0.0, 1.5, -2.25, NAN, math.inf],
    pa.float64(): [0.0, -0.0, 0.1, -2.7, 5e-324, NAN, -NAN, math.inf, -math.inf],
    pa.decimal128(10, 2): [Decimal("0.00"), Decimal("1.25"), Decimal("-99999999.99")],
    pa.decimal128(38, 3): [Decimal("0.001"), Decimal(2**64), Decimal(-(2**64)), Decimal("-0.001")],
    pa.bool_(): [True, False],
    pa.string(): ["", "a", "Z", "ab", "a longer text", "ä", "\uffff", "\U0001f600", "a\x00"],
    pa.binary(): [b"", b"a", b"\xff", b"a\x00", b"\x7f"],
    pa.date32(): [date(1970, 1, 1), date(1969, 12, 31), date(2024, 2, 29)],
    pa.timestamp("us"): [datetime(1970, 1, 1), datetime(1901, 1, 1, 0, 0, 0, 1), datetime(2024, 2, 29, 12)],
}


def random_rows(random: Random, types: Sequence[pa.DataType], rows: int) -> pa.Table:
    """Columns c0, c1, ... of these types behind a time `ts`, with nulls, and few different values."""
    time = random.choice([pa.int64(), pa.timestamp("us")])
    times = [random.randrange(-6, 6) for _ in range(rows)]
    columns = {"ts": pa.array(times, pa.int64()).cast(time)}
    for position, type_ in enumerate(types):
        pool = random.sample(VALUES[type_], k=random.randint(1, len(VALUES[type_]))) + [None] * random.randint(0, 1)
        columns[f"c{position}"] = pa.array(random.choices(pool, k=rows), type_)
    return pa.table(columns)


def random_types(random: Random) -> list[pa.DataType]:
    return random.choices(list(VALUES), k=random.randint(0, 4))


def batch(rows: pa.Table, query: str) -> Counter[tuple[Any, ...]]:
    """What DuckDB gives for a query over the table `rows`."""
    DUCKDB.register("rows", rows)
    return as_bag([DUCKDB.sql(query).to_arrow_table()])


def as_bag(tables: Sequence[pa.Table]) -> Counter[tuple[Any, ...]]:
    return Counter(row for table in tables for row in as_tuples(table))


def as_tuples(table: pa.Table) -> list[tuple[Any, ...]]:
    columns = [[_comparable(value) for value in column.to_pylist()] for column in table.columns]
    return list(zip(*columns, strict=True))


def _comparable(value: Any) -> Any:
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


class OperatorRun:
    """All results of an operator over some rows are in `results` after `run`."""

    def __init__(self, operator: Operator, time: str, random: Random, counts: OutputCounts = UNCOUNTED) -> None:
        self.operator, self._time, self._random, self._counts = operator, time, random, counts
        self.results: list[pa.Table] = []
        self._runs: list[pa.Table] = []  # worked on, or of an operator that does not probe
        self._pending: list[pa.Table] = []
        self._marks: dict[HashRange, Mark] = {EVERYTHING: BEGIN}
        self._promised = BEGIN

    def run(self, rows: pa.Table) -> list[pa.Table]:
        shuffled = rows.take(pa.array(self._random.sample(range(rows.num_rows), rows.num_rows), pa.int64()))
        start, mark = 0, BEGIN
        while min(self._marks.values()) != END:
            size = self._random.choice([0, 1, 3, 20, rows.num_rows])
            piece, left = shuffled.slice(start, size), shuffled.slice(start + size)
            start += size
            mark = max(mark, self._possible_mark(left))
            self._epoch(piece, mark)
        return self.results

    def _possible_mark(self, left: pa.Table) -> Mark:
        if not left.num_rows:
            return END
        least = min(time_values(left.column(self._time)).tolist())
        return at(least - self._random.choice([0, 0, 1, 5]))

    def _epoch(self, piece: pa.Table, mark: Mark) -> None:
        fresh = self._prepared(piece)
        (self._pending if isinstance(self.operator, ProbingOperator) else self._runs).append(fresh)
        self._change_ranges()
        for part in list(self._marks):
            if self._random.random() < 0.7:
                self._work(part, mark)
        self._change_runs()
        self._promised = self.operator.output_marks((min(self._marks.values()),))[0]

    def _prepared(self, piece: pa.Table) -> pa.Table:
        """Prepared by several producers, or only where it arrives."""
        parts = [piece.slice(start, 4) for start in range(0, piece.num_rows, 4)] or [piece]
        if self._random.random() < 0.3:
            arranged = merged([self.operator.arrange(0, part) for part in parts], self._arranged_schema(piece))
            return self.operator.prepare_arranged(0, arranged)
        return self.operator.combine(0, [self.operator.prepare(0, part) for part in parts])

    def _arranged_schema(self, piece: pa.Table) -> pa.Schema:
        return self.operator.arrange(0, piece.slice(0, 0)).schema

    def _change_ranges(self) -> None:
        part = self._random.choice(list(self._marks))
        if part.high - part.low > 2 and len(self._marks) < 6:
            cut, mark = self._random.randrange(part.low + 1, part.high), self._marks.pop(part)
            self._marks |= {HashRange(part.low, cut): mark, HashRange(cut, part.high): mark}

    def _work(self, part: HashRange, upto: Mark) -> None:
        after = self._marks[part]
        stored = [Stored(_in_range(run, part), *_time_range(run)) for run in self._runs if run.num_rows]
        fresh = merged([_in_range(run, part) for run in self._pending], self.operator.state_schema(0))
        least = min((piece.least for piece in stored), default=None)
        done = self.operator.work(Portion((stored,), (fresh,), (after,), (upto,)), self._counts)
        results = list(done.results)
        assert not results or fresh.num_rows or self.operator.due((after,), (upto,), (least,))
        self._check_promise(results)
        self.results += results
        self._pending = [left for run in self._pending for left in _outside(run, part)]
        self._runs += done.keep
        self._check_keep(done.keep[0], upto)
        self._marks[part] = upto

    def _check_promise(self, results: Sequence[pa.Table]) -> None:
        (time,) = self.operator.output_times
        for table in results:
            assert table.schema.equals(self.operator.result_schema)
            assert not self._promised.ended
            if time and table.num_rows:
                assert min(time_values(table.column(time))) >= self._promised.at

    def _check_keep(self, keep: pa.Table, mark: Mark) -> None:
        assert keep.schema.equals(self.operator.state_schema(0))
        assert not keep.num_rows or (_time_range(keep)[0] >= mark.at and not mark.ended)

    def _change_runs(self) -> None:
        """Drops runs that have expired, or rows; makes one run of some."""
        below = self.operator.expired_below(0, (min(self._marks.values()),))
        self._runs = [run for run in self._runs if run.num_rows and _time_range(run)[1] >= below]
        if self._random.random() < 0.5:
            some = [run for run in self._runs if self._random.random() < 0.5]
            combined = self.operator.combine(0, some)
            if self._random.random() < 0.5:
                combined = combined.filter(pc.field("#time") >= pa.scalar(below))
            self._runs = [run for run in self._runs if all(run is not other for other in some)] + [combined]
        assert all(is_sorted(run) for run in self._runs)


def is_sorted(state: pa.Table) -> bool:
    pairs = list(zip(state.column(0).to_pylist(), state.column(1).to_pylist(), strict=True))
    return pairs == sorted(pairs)


def _in_range(run: pa.Table, part: HashRange) -> pa.Table:
    rows = part.rows(hashes_of(run))
    return run.slice(rows.start, rows.stop - rows.start)


def _outside(run: pa.Table, part: HashRange) -> Iterator[pa.Table]:
    rows = part.rows(hashes_of(run))
    yield from (left for left in (run.slice(0, rows.start), run.slice(rows.stop)) if left.num_rows)


def _time_range(run: pa.Table) -> tuple[int, int]:
    both = pc.min_max(run.column(1))
    return both["min"].as_py(), both["max"].as_py()
