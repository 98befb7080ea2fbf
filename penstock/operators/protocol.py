"""The interface between stateful operators and the engine.

An operator has ports, through which rows arrive, and tracks, along which punctuation arrives. Usually port n has track
n. State consists of tables of rows, one schema per port, sorted by (#hash, #time), so that any range of hashes is a
slice of each table. The engine stores the state and cuts it by hash; an operator is a pure value that computes over
tables. Results must not depend on the order of rows or tables, nor on how they were cut.

    rows -- prepare --> fresh state rows -- work (with the state of the same hashes) --> results, state rows to keep

What an operator can do beyond that is declared by a base class, such as `Copying`; method names alone mean nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import pyarrow as pa

from penstock.kernels.arrays import Indices, Words
from penstock.progress.mark import Mark, Marks
from penstock.state.grid import Grid
from penstock.state.hash_ranges import HashOrder, HashRange


@dataclass(frozen=True)
class Stored:
    """State rows of one slice. `least` and `largest` bound their #time; the bounds are those of the run and may be
    wider."""

    rows: pa.Table
    least: int
    largest: int


@dataclass(frozen=True)
class Portion:
    """A unit of work: all rows of an operator in a range of hashes.

    `stored[port]` has sorted tables of rows that were worked on before. `fresh[port]` is one sorted table of rows that
    were not; it is always empty for an operator that does not probe, whose fresh rows are among the stored ones. All
    work is done up to `after` and is to be done up to `upto`, which is nowhere below `after`. Fresh rows may lie below
    `after` on the tracks of other ports, never on that of their own port.

    A `clean_up` merges two generations (see `generations`): `stored` has the rows of the older one, `fresh` those of
    the younger one, which were worked on with each other before. Results of fresh rows alone are left out.
    """

    stored: tuple[Sequence[Stored], ...]
    fresh: tuple[pa.Table, ...]
    after: Marks
    upto: Marks
    clean_up: bool = False

    @property
    def fresh_rows(self) -> int:
        """Return the number of fresh rows."""
        return sum(rows.num_rows for rows in self.fresh)

    @property
    def stored_rows(self) -> int:
        """Return the number of stored rows."""
        return sum(part.rows.num_rows for port in self.stored for part in port)


@dataclass(frozen=True)
class WorkResult:
    """The outcome of a portion.

    `results` is computed table by table, so that memory stays bounded. `keep[port]` has state rows to store, sorted: of
    a probing operator, the fresh rows that are still needed; of others, additional state rows. Rows that are not needed
    after `upto` are excluded. A clean-up keeps none, because the rows of both generations are stored already.
    """

    results: Iterable[pa.Table]
    keep: tuple[pa.Table, ...]


class OutputCounts(Protocol):
    """A count of result rows by hash. A result row belongs to the hash of the state rows that it comes from."""

    def add(self, hashes: Words, rows: Indices | None = None) -> None:
        """Count result rows whose hashes are `hashes[rows]` (None: `hashes`). Both arrays must be ascending, so that
        nothing needs to be gathered: only borders of groups are looked up in them."""
        ...

    def add_of_hash(self, hash_: int, rows: int) -> None:
        """Count result rows that all belong to one hash."""
        ...


class _NoCounts:
    """Counts nothing."""

    def add(self, hashes: Words, rows: Indices | None = None) -> None:
        pass

    def add_of_hash(self, hash_: int, rows: int) -> None:
        pass


UNCOUNTED: OutputCounts = _NoCounts()


class ProbingOperator:
    """Base of operators whose fresh rows need work before they become state (a probe): joins and distinct. Rows that a
    deadline leaves are pending."""

    def rows_to_do(self, portion: Portion) -> int:
        """Return the number of rows to work on in a portion."""
        return portion.fresh_rows

    def to_store(self, fresh: Sequence[pa.Table], kept: Sequence[pa.Table]) -> list[pa.Table]:
        """Return the new state rows after an epoch: those that work has kept. Fresh rows without work are pending."""
        return [*kept]


class ClosingOperator:
    """Base of operators that only close state by punctuation: fresh rows are state at once, and no rows are pending."""

    def rows_to_do(self, portion: Portion) -> int:
        """Return the number of rows to work on in a portion."""
        return portion.stored_rows

    def to_store(self, fresh: Sequence[pa.Table], kept: Sequence[pa.Table]) -> list[pa.Table]:
        """Return the new state rows after an epoch: the fresh ones, and those that work has added."""
        return [*fresh, *kept]


class KeepsTimesApart(ClosingOperator):
    """Base of operators whose `combine` only merges rows of equal #time, so that expired rows may be removed before."""


class Copying(ABC):
    """Base of operators that need copies of a row at several hashes. Only one copy per site is sent."""

    @abstractmethod
    def sent(self, port: int, ranges: Sequence[HashRange]) -> list[HashRange]:
        """Return the ranges whose rows are sent to a site that owns `ranges`."""

    @abstractmethod
    def received(self, port: int, rows: pa.Table, ranges: Sequence[HashRange]) -> pa.Table:
        """Return all rows of `ranges`, sorted, from the rows that were sent."""


class Gridded(Copying):
    """Base of operators whose partition groups are the cells of a grid. Their state can be converted to another one."""

    @abstractmethod
    def grid_for(self, sites: int) -> Grid:
        """Return the grid to use with a number of sites."""

    @abstractmethod
    def on(self, grid: Grid) -> Self:
        """Return the same operator with another grid."""

    @abstractmethod
    def holding(self, port: int, grid: Grid, ranges: Sequence[HashRange]) -> list[HashRange]:
        """Return cells of this operator's grid that together hold, without copies, the rows which the cells of `grid`
        in `ranges` need."""

    @abstractmethod
    def respread(self, port: int, rows: pa.Table, ranges: Sequence[HashRange]) -> pa.Table:
        """Copy rows that come from the cells of another grid, each row once, to all cells of this grid in `ranges` that
        need them."""


class Orderable(ABC):
    """Base of operators that can produce state rows in another order than that of their hashes at no extra cost."""

    @abstractmethod
    def prepare_by(self, order: HashOrder, port: int, rows: pa.Table) -> pa.Table:
        """Return the result of `prepare` in this order."""

    @abstractmethod
    def combine_by(self, order: HashOrder, port: int, tables: Sequence[pa.Table]) -> pa.Table:
        """Return the result of `combine` in this order. The tables must be in this order."""


@dataclass(frozen=True)
class Explosion:
    """A key whose rows are about to produce very many combinations: its number of rows per port, and an estimate of the
    number of combinations."""

    hash: int
    key: str
    rows: tuple[int, ...]
    combinations: int


class Exploding(ABC):
    """Base of operators that may produce far more rows than they receive."""

    @abstractmethod
    def explosion(self, portion: Portion, known: Collection[int]) -> Explosion | None:
        """Return a key of the portion with very many combinations; None if there is none, or only with hashes in
        `known`."""


class Cuttable(ABC):
    """Base of operators whose rows of one hash may be spread over several sites: the rows of one port are partitioned,
    all others are replicated."""

    @property
    @abstractmethod
    def may_cut(self) -> tuple[int, ...]:
        """Return the ports whose rows may be partitioned. Every result must come from exactly one row of such a port,
        and that row must need all rows of the other ports but no other row of its own port."""


def may_cut(operator: object) -> tuple[int, ...]:
    """Return the ports of an operator that may be cut; none for most operators."""
    return operator.may_cut if isinstance(operator, Cuttable) else ()


class ClosesWindows(ABC):
    """Base of operators with one track, along which the windows of all keys end at the same times. Closing them can be
    deferred."""

    @property
    @abstractmethod
    def period(self) -> int:
        """Return the time between the ends of two consecutive windows."""

    @abstractmethod
    def first_end(self, after: Mark, least: int) -> int:
        """Return the first window end that is not closed at `after` and whose window may hold rows; `least` is the
        least #time of all rows."""


class Operator(Protocol):
    """A stateful operator. Invariant: a frozen value, equal for equal queries, and picklable. It has one of the bases
    `ProbingOperator` and `ClosingOperator`, which say what becomes of fresh rows."""

    @property
    def ports(self) -> int:
        """Return the number of inputs."""
        ...

    @property
    def tracks(self) -> int:
        """Return the number of marks that the operator's progress consists of."""
        ...

    @property
    def result_schema(self) -> pa.Schema:
        """Return the schema of the results."""
        ...

    @property
    def reach(self) -> int:
        """Return the largest amount by which the operator adds to or subtracts from event times."""
        ...

    @property
    def output_times(self) -> tuple[str, ...]:
        """Return the progressing attributes of the result, in the order of `output_marks`. An empty name: the
        time is not in the result, or the mark holds only jointly with others."""
        ...

    def state_schema(self, port: int) -> pa.Schema:
        """Return the schema of the port's state rows, which begins with #hash and #time."""
        ...

    def prepare(self, port: int, rows: pa.Table) -> pa.Table:
        """Convert input rows to sorted state rows, pre-aggregated if possible."""
        ...

    def arrange(self, port: int, rows: pa.Table) -> pa.Table:
        """Return input rows with #hash and #time before all their columns, sorted. Rows are sent in this form if they
        must not be prepared yet."""
        ...

    def prepare_arranged(self, port: int, arranged: pa.Table) -> pa.Table:
        """Convert arranged rows to sorted state rows. Equals `prepare` of the rows, unless their #time was changed."""
        ...

    def combine(self, port: int, tables: Sequence[pa.Table]) -> pa.Table:
        """Merge sorted tables of state rows into one."""
        ...

    def rows_to_do(self, portion: Portion) -> int:
        """Return the number of rows to work on in a portion."""
        ...

    def to_store(self, fresh: Sequence[pa.Table], kept: Sequence[pa.Table]) -> list[pa.Table]:
        """Return the new state rows of a port after an epoch, from those that have arrived and those that `work` has
        returned."""
        ...

    def due(self, after: Marks, upto: Marks, least: tuple[int | None, ...]) -> bool:
        """Return whether there may be work without fresh rows. `least[port]` is the least stored #time (None: no rows).
        If there is no work, the engine advances the marks without calling `work`."""
        ...

    def work(self, portion: Portion, counts: OutputCounts = UNCOUNTED) -> WorkResult:
        """Do all work of a portion up to its `upto`; return the results and the state rows to keep. Once all results
        are computed, each of their rows is counted once in `counts`."""
        ...

    def expired_below(self, port: int, marks: Marks) -> int:
        """Return the #time below which state rows of a port are no longer needed."""
        ...

    def span(self, port: int) -> int:
        """Return the approximate lifetime of state rows. Compaction uses it to limit the time span of runs, so that
        whole runs can expire."""
        ...

    def output_marks(self, marks: Marks) -> Marks:
        """Return the marks of the result once all work is done up to `marks`, one for each of `output_times`."""
        ...


class OnePort:
    """Base of operators with one port and one track."""

    @property
    def ports(self) -> int:
        return 1

    @property
    def tracks(self) -> int:
        return 1


class TwoPorts:
    """Base of operators with two ports and one track per port."""

    @property
    def ports(self) -> int:
        return 2

    @property
    def tracks(self) -> int:
        return 2
