"""The program of a query: what travels to tasks. Inputs and subqueries, joined by branches.

A producer (an input where it is read, or a subquery at its sites) has branches: stateless steps that end at a port of a
later subquery, or at the sink. A producer that feeds two places is run once and has two branches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from penstock.expr.tree import Expr, Named
from penstock.operators.protocol import Marks, Operator
from penstock.operators.window.lateness import Closing, RowCloses
from penstock.operators.window.windows import Window
from penstock.plan.logical import BatchFunction
from penstock.plan.naming import unique_name
from penstock.progress.mark import MAX_TIME, MIN_TIME, Mark, at
from penstock.progress.rules import Rule
from penstock.progress.substreams import low_water_mark

SINK = -1  # the target of a branch that ends at the sink
ROW_NUMBER = "#row"  # the column with the number of a row, where a subquery wants it
PLACE = "#place"  # the column with the place of a row in its split, by which it is found again
LATE_FOR = "late_for"  # the column of late rows that says what they were late for
LATE_AS_A_ROW = RowCloses()
BY_TIME, BY_NUMBER = 0, 1  # the progressing attributes of an input: its time, and the numbers of its rows


@dataclass(frozen=True)
class Keep:
    """A stateless step: rows for which the predicate holds."""

    predicate: Expr


@dataclass(frozen=True)
class Divide:
    """A stateless step: the rows of one output of a filter with several."""

    predicates: tuple[Expr, ...]
    output: int


@dataclass(frozen=True)
class Compute:
    """A stateless step: new columns from old ones."""

    columns: tuple[Named, ...]


@dataclass(frozen=True)
class Assign:
    """A stateless step: each row once for every window it is in."""

    window: Window


@dataclass(frozen=True)
class Apply:
    """A stateless step: rows through a Python function. `time` names the times before and after it, which it must not
    make earlier (None: there are none behind it)."""

    function: BatchFunction
    schema: pa.Schema
    times: tuple[str, str] | None


Step = Keep | Divide | Compute | Assign | Apply


@dataclass(frozen=True)
class WindowBorder:
    """How a mark on a time becomes a mark on the start or the end of the windows that hold it."""

    window: Window
    end: bool

    def mark(self, mark: Mark) -> Mark:
        if mark.ended:
            return mark
        return at(self.window.first_start_ending_after(mark.at) + (self.window.size if self.end else 0))


@dataclass(frozen=True)
class Following:
    """How a track of a consumer follows its producer: which of the producer's progressing attributes it is told, and
    through which windows that attribute went on the way."""

    attribute: int
    borders: tuple[WindowBorder, ...] = ()

    def mark(self, marks: Marks) -> Mark:
        mark = marks[self.attribute]
        for border in self.borders:
            mark = border.mark(mark)
        return mark


@dataclass(frozen=True)
class Branch:
    """Rows of a producer on their way to a port. `tracks[n]` says how track `first_track + n` follows them. Rows of an
    input that come below its punctuation are late for the port by `closing`, which goes by the first of the tracks."""

    steps: tuple[Step, ...]
    target: int
    port: int = 0
    first_track: int = 0
    tracks: tuple[Following, ...] = ()
    closing: Closing = LATE_AS_A_ROW

    def followed(self, marks: Marks) -> Marks:
        """What the consumer is told of the producer's marks: one for each track that the branch feeds."""
        return tuple(following.mark(marks) for following in self.tracks)


@dataclass(frozen=True)
class Input:
    """What a task needs to know of a source: how its progress is told, and which columns are read. `numbered`: its rows
    also get ROW_NUMBER, their place in the split. `late_for`: late rows say which windows missed them."""

    schema: pa.Schema
    time: str
    progress: Rule
    columns: tuple[str, ...]
    numbered: bool
    branches: tuple[Branch, ...]
    late_for: bool = False

    @property
    def late_schema(self) -> pa.Schema:
        """The columns of late rows: those of the source, and LATE_FOR behind them."""
        return self.schema.append(pa.field(self.late_for_name, self._late_for_type)) if self.late_for else self.schema

    @property
    def late_for_name(self) -> str:
        return unique_name(LATE_FOR, self.schema.names)

    @property
    def _late_for_type(self) -> pa.DataType:
        """One entry for each subquery that missed the row (null: the sink): from the start of the first window that
        missed it to the end of the last one (null: not by windows)."""
        time = self.schema.field(self.time).type
        entry = [("subquery", pa.int32()), ("first_start", time), ("last_end", time)]
        return pa.list_(pa.field("missed", pa.struct(entry), nullable=False))


@dataclass(frozen=True)
class Subquery:
    """A stateful operator, and the stateless ones behind it. Its number is its level: level n feeds only higher levels.

    `ordered`: the merger holds rows back and gives them to the operator in order of time. `numbers` names the column
    of arranged rows, if there is one, that holds the number of a row: its place in a split, until a site knows better.
    """

    number: int
    operator: Operator
    branches: tuple[Branch, ...]
    ordered: bool = False
    numbers: str | None = None

    @property
    def takes_rows(self) -> bool:
        """Whether rows travel to it as they are, and are prepared at the site."""
        return self.ordered or self.numbers is not None

    def track_marks(self, told: Iterable[tuple[Branch, Marks]]) -> Marks:
        """The mark of every track, from what each branch tells of those that it feeds; a track that nobody feeds has
        ended. In order, all tracks are as far as the last of them."""
        known: list[list[Mark]] = [[] for _ in range(self.operator.tracks)]
        for branch, marks in told:
            for track, mark in enumerate(marks, branch.first_track):
                known[track].append(mark)
        least = tuple(map(low_water_mark, known))
        return (low_water_mark(least),) * len(least) if self.ordered else least


@dataclass(frozen=True)
class Feed:
    """A branch seen from its consumer. `producer` is the index of an input or of a subquery."""

    is_input: bool
    producer: int
    branch_number: int
    branch: Branch


@dataclass(frozen=True)
class Program:
    """The part of a query that travels to tasks: a plain value, without connectors."""

    inputs: tuple[Input, ...]
    subqueries: tuple[Subquery, ...]
    result_schema: pa.Schema

    @property
    def time_range(self) -> tuple[int, int]:
        """The least and the largest event time that the arithmetic of all operators leaves a 64-bit time."""
        branches = [b for part in self.inputs for b in part.branches] + [b for s in self.subqueries for b in s.branches]
        windows = [step.window for branch in branches for step in branch.steps if isinstance(step, Assign)]
        assigned = [window.size + window.slide for window in windows]
        reach = sum(s.operator.reach for s in self.subqueries) + sum(assigned)
        return MIN_TIME + reach, MAX_TIME - reach

    def feeds(self, subquery: int) -> Iterator[Feed]:
        """All branches that end at a subquery."""
        for index, part in enumerate(self.inputs):
            yield from _feeds(True, index, part.branches, subquery)
        for index, feeder in enumerate(self.subqueries):
            yield from _feeds(False, index, feeder.branches, subquery)


def _feeds(is_input: bool, producer: int, branches: tuple[Branch, ...], target: int) -> Iterator[Feed]:
    for number, branch in enumerate(branches):
        if branch.target == target:
            yield Feed(is_input, producer, number, branch)
