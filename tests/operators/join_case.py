"""Runs a join over rows in any order, cut anywhere, and watches what an operator promises on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import duckdb
import numpy as np
import pyarrow as pa

from penstock.operators.arrange import order_of
from penstock.operators.band_join.join import BandJoin
from penstock.operators.protocol import UNCOUNTED, OutputCounts, Portion, Stored
from penstock.progress.mark import BEGIN, END, MAX_TIME, MIN_TIME, Mark, Marks, at
from penstock.state.hash_ranges import HASH_END, HashRange
from penstock.state.runs import HASH, TIME
from penstock.types import time_values

Rows = list[tuple[object, ...]]


def multiset(table: pa.Table) -> Counter[tuple[str, ...]]:
    """The rows of a table, counted; NaN equals NaN."""
    return Counter(tuple(map(repr, row.values())) for row in table.to_pylist())


def batch_answer(sql: str, inputs: Sequence[pa.Table]) -> pa.Table:
    """What DuckDB says to a query over r0, r1, ..."""
    with duckdb.connect() as connection:
        for number, table in enumerate(inputs):
            connection.register(f"r{number}", table)
        return connection.sql(sql).to_arrow_table()


@dataclass
class Site:
    """The home of a range of hashes: state, rows not worked on, how far the work is, what was promised since."""

    join: BandJoin
    range: HashRange
    random: Random
    stored: list[list[Stored]] = field(default_factory=list)
    pending: list[list[pa.Table]] = field(default_factory=list)
    done: Marks = ()
    results: list[pa.Table] = field(default_factory=list)
    counts: OutputCounts = UNCOUNTED

    def __post_init__(self) -> None:
        self.stored = [[] for _ in self.join.schemas]
        self.pending = [[] for _ in self.join.schemas]
        self.done = tuple(BEGIN for _ in self.join.schemas)

    def take_in(self, port: int, prepared: pa.Table) -> None:
        self.pending[port].append(prepared[self.range.rows(prepared.column(HASH).to_numpy())])

    def advance(self, upto: Marks) -> None:
        """Works on all that is pending, unless there is nothing to do."""
        ports = range(self.join.ports)
        fresh = tuple(self.join.combine(port, self.pending[port]) for port in ports)
        least = tuple(min((s.least for s in self.stored[port]), default=None) for port in ports)
        if any(table.num_rows for table in fresh) or self.join.due(self.done, upto, least):
            self.work(Portion(tuple(self.stored), fresh, self.done, upto))
        promised, before = self.join.output_marks(upto), self.join.output_marks(self.done)
        assert all(b >= a for a, b in zip(before, promised, strict=True))
        self.pending = [[] for _ in ports]
        self.done = upto
        for port in ports:
            self.stored[port] = [s for s in (self.aged(s, port) for s in self.stored[port]) if s.rows.num_rows]
            self.maybe_compact(port)

    def work(self, portion: Portion) -> None:
        done = self.join.work(portion, self.counts)
        for table in done.results:
            assert table.schema == self.join.result_schema
            assert table.num_rows
            self.check_promises(table)
            self.results.append(table)
        for port, kept in enumerate(done.keep):
            assert kept.schema == self.join.state_schema(port)
            if kept.num_rows:
                times = time_values(kept.column(TIME))
                assert times.min() >= self.join.expired_below(port, portion.upto)
                assert order_of(kept) is None, "not sorted"
                self.stored[port].append(self.as_stored(kept))

    def check_promises(self, table: pa.Table) -> None:
        """No result lies below a mark that was passed on before."""
        marks, names = self.join.output_marks(self.done), self.join.output_times
        assert len(marks) == len(names)
        assert not min(marks).ended
        for name, mark in zip(names, marks, strict=True):
            if name:
                assert not mark.ended
                assert time_values(table.column(name)).min() >= mark.at
        joint = marks[self.join.ports :]
        below = [time_values(table.column(n)) < m.at for n, m in zip(self.join.times, joint, strict=False) if names[0]]
        assert not below or not np.all(below, axis=0).any()

    def as_stored(self, rows: pa.Table) -> Stored:
        """Bounds may be wider than the rows, and rows may lie in several stretches of memory."""
        middle = self.random.randint(0, rows.num_rows)
        rows = pa.concat_tables([rows.slice(0, middle), rows.slice(middle)])
        times, slack = time_values(rows.column(TIME)), self.random.choice([0, 5])
        return Stored(rows, max(MIN_TIME, int(times.min()) - slack), min(MAX_TIME, int(times.max()) + slack))

    def aged(self, stored: Stored, port: int) -> Stored:
        """Without rows that have expired; those may also stay for a while."""
        if self.random.random() < 0.2 and not all(mark.ended for mark in self.done):
            return stored
        alive = time_values(stored.rows.column(TIME)) >= self.join.expired_below(port, self.done)
        return Stored(stored.rows.filter(pa.array(alive)), stored.least, stored.largest)

    def maybe_compact(self, port: int) -> None:
        if self.stored[port] and self.random.random() < 0.2:
            self.stored[port] = [self.as_stored(self.join.combine(port, [s.rows for s in self.stored[port]]))]


def run(
    join: BandJoin,
    inputs: Sequence[pa.Table],
    random: Random,
    jitter: int,
    sites: int = 2,
    counts: OutputCounts = UNCOUNTED,
) -> pa.Table:
    """The results over inputs whose rows arrive about in order of time, at most `jitter` behind."""
    cut = random.choice([2**63, 2**62])
    ranges = [HashRange(0, cut), HashRange(cut, HASH_END)] if sites == 2 else [HashRange(0, HASH_END)]
    homes = [Site(join, r, random, counts=counts) for r in ranges]
    left = [shuffled(table, time, jitter, random) for table, time in zip(inputs, join.times, strict=True)]
    marks: Marks = tuple(BEGIN for _ in inputs)
    while not all(home.done == tuple(END for _ in inputs) for home in homes):
        for port, table in enumerate(left):
            count = random.choice([0, random.randrange(1, 30), random.randrange(1, 30)])
            arriving, left[port] = table.slice(0, count), table.slice(count)
            prepared = prepare(join, port, arriving, random)
            for home in homes:
                home.take_in(port, prepared)
        marks = tuple(later(marks[n], left[n], join.times[n], random) for n in range(len(left)))
        for home in homes:
            if random.random() < 0.7:
                home.advance(tuple(random.choice([a, b, b]) for a, b in zip(home.done, marks, strict=True)))
    left_over = [s.rows for home in homes for port in home.stored for s in port]
    assert all(int(time_values(table.column(TIME)).min()) == MAX_TIME for table in left_over)  # never below a bound
    return pa.concat_tables([t for home in homes for t in home.results] or [join.result_schema.empty_table()])


def prepare(join: BandJoin, port: int, rows: pa.Table, random: Random) -> pa.Table:
    if random.random() < 0.5:
        return join.prepare(port, rows)
    return join.prepare_arranged(port, join.arrange(port, rows))


def shuffled(table: pa.Table, time: str, jitter: int, random: Random) -> pa.Table:
    times = time_values(table.column(time)).tolist()
    order = sorted(range(len(times)), key=lambda n: times[n] + random.randint(0, jitter))
    return table.take(pa.array(order, pa.int64()))


def later(mark: Mark, left: pa.Table, time: str, random: Random) -> Mark:
    """A mark that the rows still to come allow."""
    if random.random() < 0.3:
        return mark
    if not left.num_rows:
        return END
    least = int(time_values(left.column(time)).min())
    return max(mark, at(least - random.choice([0, 0, 1, 3])))
