"""The program of a query, which is sent to tasks: inputs and subqueries, connected by branches.

A producer (an input where it is read, or a subquery at its sites) has branches: stateless steps that end at a port of a
later subquery, or at the sink. A producer that feeds two consumers runs once and has two branches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from penstock.expr.tree import Expr, Named
from penstock.operators.protocol import Operator
from penstock.operators.window.lateness import ClosingRule, RowCloses
from penstock.operators.window.windows import Window
from penstock.plan.logical import BatchFunction
from penstock.progress.mark import MAX_TIME, MIN_TIME, Mark, Marks, Rule, at, low_water_mark
from penstock.types import unique_name

ROW_NUMBER = "#row"  # the column with the number of a row, if a subquery needs it
PLACE = "#place"  # the column with the position of a row in its split, to find the row again
LATE_FOR = "late_for"  # the column of late rows that lists what they were late for
LATE_AS_A_ROW = RowCloses()
BY_TIME, BY_NUMBER = 0, 1  # the progressing attributes of an input: its time, and the numbers of its rows


@dataclass(frozen=True)
class FilterStep:
    """A stateless step: filter by a predicate."""

    predicate: Expr


@dataclass(frozen=True)
class SplitStep:
    """A stateless step: the rows of one output of a filter with several outputs."""

    predicates: tuple[Expr, ...]
    output: int


@dataclass(frozen=True)
class ProjectStep:
    """A stateless step: new columns computed from old ones."""

    columns: tuple[Named, ...]


@dataclass(frozen=True)
class AssignWindowsStep:
    """A stateless step: each row once per window that contains it."""

    window: Window


@dataclass(frozen=True)
class MapBatchesStep:
    """A stateless step: apply a Python function to batches. `times` names the time before and after the function, which
    must not make it earlier (None: there is no time after it)."""

    function: BatchFunction
    schema: pa.Schema
    times: tuple[str, str] | None


Step = FilterStep | SplitStep | ProjectStep | AssignWindowsStep | MapBatchesStep


@dataclass(frozen=True)
class WindowBorder:
    """The mapping from a mark on a time to a mark on the start (or, with `end`, the end) of the windows that contain
    that time."""

    window: Window
    end: bool

    def mark(self, mark: Mark) -> Mark:
        """Return the mark of the window bound for a mark of the time."""
        if mark.ended:
            return mark
        return at(self.window.first_start_ending_after(mark.at) + (self.window.size if self.end else 0))


@dataclass(frozen=True)
class Following:
    """The rule by which a track of a consumer follows its producer: the index of the producer's progressing attribute,
    and the window assignments that the attribute passed through on the way."""

    attribute: int
    borders: tuple[WindowBorder, ...] = ()

    def mark(self, marks: Marks) -> Mark:
        """Return the mark of the track, given the marks of the producer."""
        mark = marks[self.attribute]
        for border in self.borders:
            mark = border.mark(mark)
        return mark


@dataclass(frozen=True)
class Branch:
    """The way of rows from a producer to a port of the subquery `target` (None: to the sink). `tracks[n]` says how
    track `first_track + n` follows the producer. Rows of an input below its punctuation are late for the port according
    to `closing`, which uses the first of the tracks."""

    steps: tuple[Step, ...]
    target: int | None
    port: int = 0
    first_track: int = 0
    tracks: tuple[Following, ...] = ()
    closing: ClosingRule = LATE_AS_A_ROW

    def followed(self, marks: Marks) -> Marks:
        """Return the marks of the consumer's tracks that this branch feeds, given the marks of the producer."""
        return tuple(following.mark(marks) for following in self.tracks)


@dataclass(frozen=True)
class Input:
    """The part of a source that tasks need: the rule of its progress, and the columns to read. With `numbered` its rows
    also get ROW_NUMBER, their position in the split. With `late_for`, late rows list the windows that they missed."""

    schema: pa.Schema
    time: str
    progress: Rule
    columns: tuple[str, ...]
    numbered: bool
    branches: tuple[Branch, ...]
    late_for: bool = False

    @property
    def late_schema(self) -> pa.Schema:
        """Return the columns of late rows: those of the source, followed by LATE_FOR."""
        return self.schema.append(pa.field(self.late_for_name, self._late_for_type)) if self.late_for else self.schema

    @property
    def late_for_name(self) -> str:
        """Return the name of the column LATE_FOR, made different from the columns of the source."""
        return unique_name(LATE_FOR, self.schema.names)

    @property
    def _late_for_type(self) -> pa.DataType:
        """Return the type of LATE_FOR: one entry per subquery that the row missed (null: the sink), from the start of
        the first missed window to the end of the last one (null: late as a whole)."""
        time = self.schema.field(self.time).type
        entry = [("subquery", pa.int32()), ("first_start", time), ("last_end", time)]
        return pa.list_(pa.field("missed", pa.struct(entry), nullable=False))


@dataclass(frozen=True)
class Subquery:
    """A stateful operator and the stateless steps after it. Its number is its level: level n feeds only higher levels.

    With `ordered`, the merger holds rows back and gives them to the operator in order of time. `numbers` names the
    column of arranged rows with the number of a row, if there is one: its position in the split, until the site turns
    it into the position in the stream.
    """

    number: int
    operator: Operator
    branches: tuple[Branch, ...]
    ordered: bool = False
    numbers: str | None = None

    @property
    def takes_rows(self) -> bool:
        """Return whether rows are sent to the site unprepared, and are prepared there."""
        return self.ordered or self.numbers is not None

    def track_marks(self, received: Iterable[tuple[Branch, Marks]]) -> Marks:
        """Return the mark of every track: the least of the marks that the branches report for it. A track without
        branches has ended. For an ordered subquery all tracks get the least of all marks."""
        known: list[list[Mark]] = [[] for _ in range(self.operator.tracks)]
        for branch, marks in received:
            for track, mark in enumerate(marks, branch.first_track):
                known[track].append(mark)
        least = tuple(map(low_water_mark, known))
        return (low_water_mark(least),) * len(least) if self.ordered else least


@dataclass(frozen=True)
class Feed:
    """A branch as its consumer sees it. `producer` is the index of an input or of a subquery."""

    is_input: bool
    producer: int
    branch_number: int
    branch: Branch


@dataclass(frozen=True)
class Program:
    """The part of a query that is sent to tasks: a plain value, without connectors."""

    inputs: tuple[Input, ...]
    subqueries: tuple[Subquery, ...]
    result_schema: pa.Schema

    @property
    def time_range(self) -> tuple[int, int]:
        """Return the least and the greatest event time for which no operator's arithmetic overflows 64 bits."""
        branches = [b for part in self.inputs for b in part.branches] + [b for s in self.subqueries for b in s.branches]
        windows = [step.window for branch in branches for step in branch.steps if isinstance(step, AssignWindowsStep)]
        assigned = [window.size + window.slide for window in windows]
        reach = sum(s.operator.reach for s in self.subqueries) + sum(assigned)
        return MIN_TIME + reach, MAX_TIME - reach

    def feeds(self, subquery: int) -> Iterator[Feed]:
        """Yield all branches that end at a subquery."""
        for index, part in enumerate(self.inputs):
            yield from _feeds(True, index, part.branches, subquery)
        for index, feeder in enumerate(self.subqueries):
            yield from _feeds(False, index, feeder.branches, subquery)


def _feeds(is_input: bool, producer: int, branches: tuple[Branch, ...], target: int) -> Iterator[Feed]:
    for number, branch in enumerate(branches):
        if branch.target == target:
            yield Feed(is_input, producer, number, branch)
