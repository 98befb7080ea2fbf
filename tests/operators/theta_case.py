"""Runs a join operator as the engine would, in a random way, and checks all that it promises on the way.

The hash space is cut into ranges, each with its own state and its own marks. Rows come in portions, above the mark of
their input; each range works now and then on what it has, as far as the inputs have come.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.operators.arrange import hashes_of, order_of, times_of
from penstock.operators.protocol import UNCOUNTED, ClosingOperator, Operator, OutputCounts, Portion, Stored
from penstock.progress.mark import BEGIN, END, MAX_TIME, Mark, Marks, at
from penstock.state.hash_ranges import HASH_END, HashRange
from penstock.types import time_values

Rows = Counter[tuple[Any, ...]]


@dataclass
class Place:
    """What lives in a range of hashes: its state, rows not worked on, and how far all is done."""

    range: HashRange
    stored: list[list[pa.Table]]
    fresh: list[list[pa.Table]]
    after: Marks = (BEGIN, BEGIN)


@dataclass
class Driver:
    """Feeds `inputs`, two tables of input rows, to an operator. `slack` is how far rows come out of order."""

    operator: Operator
    inputs: tuple[pa.Table, pa.Table]
    times: tuple[str, str]
    random: Random
    slack: int
    results: list[pa.Table] = field(default_factory=list)
    counts: OutputCounts = UNCOUNTED

    def run(self) -> Rows:
        """All results, with what is promised about them checked."""
        self.places = self._places()
        self.marks: Marks = (BEGIN, BEGIN)
        arrivals = [self._arrival_order(port) for port in (0, 1)]
        while any(len(a) for a in arrivals):
            port = self.random.choice([p for p in (0, 1) if len(arrivals[p])])
            count = self.random.randint(1, max(1, len(arrivals[port]) // self.random.choice((1, 3, 6))))
            self._take_in(port, arrivals[port][:count])
            arrivals[port] = arrivals[port][count:]
            self._advance(port, arrivals[port])
            self._work_somewhere(0.5)
        self._finish()
        return as_rows(pa.concat_tables(self.results)) if self.results else Counter()

    def _places(self) -> list[Place]:
        cuts = sorted({0, HASH_END, *(self.random.randrange(1, HASH_END) for _ in range(self.random.randint(0, 3)))})
        ranges = [HashRange(low, high) for low, high in pairwise(cuts)]
        return [Place(r, [[], []], [[], []]) for r in ranges]

    def _arrival_order(self, port: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        times = time_values(self.inputs[port].column(self.times[port]))
        delays = [int(t) + self.random.randint(0, self.slack) for t in times]
        return np.array(sorted(range(len(times)), key=delays.__getitem__), dtype=np.int64)

    def _take_in(self, port: int, numbers: np.ndarray[Any, Any]) -> None:
        rows = self.inputs[port].take(pa.array(numbers))
        prepared = self._prepared(port, rows)
        assert prepared.schema == self.operator.state_schema(port)
        assert order_of(prepared) is None
        hashes = hashes_of(prepared)
        for place in self.places:
            if (part := prepared.slice(*_bounds(place.range, hashes))).num_rows:
                place.fresh[port].append(part)

    def _prepared(self, port: int, rows: pa.Table) -> pa.Table:
        if self.random.random() < 0.5:
            return self.operator.prepare(port, rows)
        return self.operator.prepare_arranged(port, self.operator.arrange(port, rows))

    def _advance(self, port: int, still_to_come: np.ndarray[Any, Any]) -> None:
        """The mark of the input moves on, at most to the least time that is still to come."""
        rest = time_values(self.inputs[port].take(pa.array(still_to_come)).column(self.times[port]))
        mark = END if not len(rest) else at(int(rest.min()) - self.random.choice((0, 0, 1, self.slack)))
        if self.random.random() < 0.7:
            self.marks = tuple(max(mark, m) if p == port else m for p, m in enumerate(self.marks))

    def _finish(self) -> None:
        for port in (0, 1):
            self.marks = tuple(END if p == port else m for p, m in enumerate(self.marks))
            self._work_somewhere(1.0)
        left = [table for place in self.places for tables in place.stored for table in tables]
        assert all((times_of(table) == MAX_TIME).all() for table in left), "state is left at the end"
        assert set(self.operator.output_marks(self.marks)) == {END}

    def _work_somewhere(self, share: float) -> None:
        for place in self.places:
            if self.random.random() < share:
                self._work(place)

    def _work(self, place: Place) -> None:
        operator, upto = self.operator, self.marks
        if isinstance(operator, ClosingOperator):
            for port in (0, 1):
                place.stored[port] += place.fresh[port]
                place.fresh[port] = []
        fresh = tuple(operator.combine(port, place.fresh[port]) for port in (0, 1))
        stored = tuple([self._as_stored(t) for t in tables] for tables in place.stored)
        least = tuple(min((s.least for s in tables), default=None) for tables in stored)
        if any(f.num_rows for f in fresh) or operator.due(place.after, upto, least):
            done = operator.work(Portion(stored, fresh, place.after, upto), self.counts)
            for piece in done.results:
                self._check_result(piece, operator.output_marks(place.after))
            for port in (0, 1):
                assert done.keep[port].schema == operator.state_schema(port)
                assert order_of(done.keep[port]) is None
                place.stored[port] = self._compacted(port, [*place.stored[port], done.keep[port]])
        place.fresh = [[], []]
        self._check_marks(place.after, upto)
        place.after = upto
        self._expire(place)

    def _as_stored(self, table: pa.Table) -> Stored:
        times = times_of(table)
        room = self.random.choice((0, 0, 5))
        return Stored(table, max(int(times.min()) - room, -(2**63)), min(int(times.max()) + room, MAX_TIME))

    def _compacted(self, port: int, tables: list[pa.Table]) -> list[pa.Table]:
        if self.random.random() < 0.3:
            return [self.operator.combine(port, tables)]
        return tables

    def _expire(self, place: Place) -> None:
        """Drops what has expired: rows, or whole tables only, for the engine may do either."""
        for port in (0, 1):
            bound = self.operator.expired_below(port, place.after)
            alive = [t for t in place.stored[port] if t.num_rows and times_of(t).max() >= bound]
            if place.after == (END, END) or self.random.random() < 0.5:
                alive = [t.filter(pc.greater_equal(t.column("#time"), bound)) for t in alive]
            place.stored[port] = alive

    def _check_marks(self, after: Marks, upto: Marks) -> None:
        before, now = self.operator.output_marks(after), self.operator.output_marks(upto)
        assert len(now) == len(self.operator.output_times)
        assert all(b <= n for b, n in zip(before, now, strict=True)), "a mark goes backwards"

    def _check_result(self, piece: pa.Table, promised: Marks) -> None:
        """No result lies below what was promised before."""
        assert piece.schema == self.operator.result_schema
        assert piece.num_rows
        self.results.append(piece)
        for name, mark in zip(self.operator.output_times, promised, strict=True):
            if name:
                assert _above(piece, name, mark).all()
        if self.operator.output_times[2:] == ("", "") and all(name in piece.column_names for name in self.times):
            joint = [_above(piece, name, mark) for name, mark in zip(self.times, promised[2:], strict=True)]
            assert (joint[0] | joint[1]).all()


def _above(piece: pa.Table, name: str, mark: Mark) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return np.full(piece.num_rows, not mark.ended) & (time_values(piece.column(name)) >= mark.at)


def _bounds(part: HashRange, hashes: np.ndarray[Any, np.dtype[np.uint64]]) -> tuple[int, int]:
    rows = part.rows(hashes)
    return rows.start, rows.stop - rows.start


def as_rows(table: pa.Table) -> Rows:
    """The rows of a table as a multiset in which NaN equals itself."""
    columns = [[repr(v) if isinstance(v, float) else v for v in column.to_pylist()] for column in table.columns]
    return Counter(zip(*columns, strict=True))


def in_batch(sql: str, left: pa.Table, right: pa.Table) -> Rows:
    """What DuckDB answers; `left` and `right` are the two inputs."""
    with duckdb.connect(":memory:") as connection:
        connection.register("left_rows", left)
        connection.register("right_rows", right)
        return as_rows(connection.sql(sql).to_arrow_table())
