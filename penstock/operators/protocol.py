"""What a stateful operator is to the engine.

An operator has ports, through which rows come in, and tracks, by which it is told how far its input has come. Usually
port n has track n. State is tables of rows, one kind per port, sorted by (#hash, #time), so that any range of hashes is
a slice of each of them. The engine keeps the state, cuts it by hash and brings it back; an operator is a pure value
that computes over tables. Nothing may depend on the order of rows or tables, nor on how they were cut.

    rows -- prepare --> fresh state rows -- work (with the state of the same hashes) --> results, state rows to keep
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, Self, runtime_checkable

import pyarrow as pa

from penstock.progress.mark import Mark
from penstock.state.grid import Grid
from penstock.state.hash_ranges import HashRange
from penstock.state.site_order import Order

Marks = tuple[Mark, ...]  # one per track


@dataclass(frozen=True)
class Stored:
    """State rows of one slice. `least` and `largest` bound their #time (the run may reach further than the slice)."""

    rows: pa.Table
    least: int
    largest: int


@dataclass(frozen=True)
class Portion:
    """A piece of work: all that an operator has on a range of hashes.

    `stored[port]` are tables that were worked on before, each sorted; `fresh[port]` is one sorted table of rows that
    were not (always empty for an operator that does not probe: its fresh rows are among the stored ones). All work is
    done up to `after`; it is to be done up to `upto`, which is nowhere behind it. `fresh` rows may lie below `after`
    on the tracks of other ports, never on that of their own.
    """

    stored: tuple[Sequence[Stored], ...]
    fresh: tuple[pa.Table, ...]
    after: Marks
    upto: Marks

    def rows_to_do(self, probes: bool) -> int:
        """The rows that are worked on one by one: fresh ones that probe, or all of what closes."""
        stored = [part.rows for port in self.stored for part in port]
        return sum(rows.num_rows for rows in (self.fresh if probes else stored))


@dataclass(frozen=True)
class Done:
    """`results` come in pieces, computed one by one, so that memory stays bounded. `keep[port]` are state rows to be
    stored, sorted: for a probing operator what is left of the fresh rows, for another one what it wants to have in
    addition. Rows that will never be needed after `upto` are not among them."""

    results: Iterable[pa.Table]
    keep: tuple[pa.Table, ...]


@runtime_checkable
class Copying(Protocol):
    """An operator that needs a row at several hashes. Of the copies that are for one site only one travels."""

    def sent(self, port: int, ranges: Sequence[HashRange]) -> list[HashRange]:
        """The ranges whose rows are sent to a site that is home to `ranges`."""
        ...

    def received(self, port: int, rows: pa.Table, ranges: Sequence[HashRange]) -> pa.Table:
        """All rows of `ranges`, sorted, from those that were sent."""
        ...


@runtime_checkable
class Gridded(Copying, Protocol):
    """An operator whose groups are the cells of a grid. Its state may be brought under another one."""

    def grid_for(self, sites: int) -> Grid:
        """The grid that it should have on a number of sites."""
        ...

    def on(self, grid: Grid) -> Self:
        """The same operator under another grid."""
        ...

    def holding(self, port: int, grid: Grid, ranges: Sequence[HashRange]) -> list[HashRange]:
        """Cells of this grid that hold, each once, the rows which cells of another grid need, those in `ranges`."""
        ...

    def respread(self, port: int, rows: pa.Table, ranges: Sequence[HashRange]) -> pa.Table:
        """Rows that cells of another grid hold, each once, in all cells of this grid in `ranges` that need them."""
        ...


@runtime_checkable
class Orderable(Protocol):
    """An operator that makes state rows in another order than that of their hashes as easily."""

    def prepare_by(self, order: Order, port: int, rows: pa.Table) -> pa.Table:
        """What `prepare` gives, in this order."""
        ...

    def combine_by(self, order: Order, port: int, tables: Sequence[pa.Table]) -> pa.Table:
        """What `combine` gives, in this order; the tables are in it, too."""
        ...


@dataclass(frozen=True)
class Explosion:
    """A key whose rows, so many of each port, are about to give about so many combinations."""

    hash: int
    key: str
    rows: tuple[int, ...]
    combinations: int


@runtime_checkable
class Exploding(Protocol):
    """An operator that may give far more rows than it is given."""

    def explosion(self, portion: Portion, known: Collection[int]) -> Explosion | None:
        """A key of the portion that is about to do so, unless its hash is known for it."""
        ...


@runtime_checkable
class Cuttable(Protocol):
    """An operator whose rows of one hash may be at several sites: those of one port dealt out, all others copied."""

    @property
    def may_cut(self) -> tuple[int, ...]:
        """The ports whose rows may be dealt out: every result comes from exactly one row of such a port, and that row
        needs to know of all rows of the other ports, but of no other row of its own."""
        ...


def may_cut(operator: object) -> tuple[int, ...]:
    """The ports of an operator that may be cut; of most, none."""
    return operator.may_cut if isinstance(operator, Cuttable) else ()


@runtime_checkable
class ClosesWindows(Protocol):
    """An operator with one track, along which windows of all keys end at once. Closing them may be put off."""

    @property
    def period(self) -> int:
        """How long it is from the end of one window to that of the next."""
        ...

    def first_end(self, after: Mark, least: int) -> int:
        """The first end of a window that is not closed at `after` and may hold rows, of which `least` is the least
        #time."""
        ...


class Operator(Protocol):
    """Invariant: an operator is a frozen value, equal for equal queries, and picklable."""

    @property
    def ports(self) -> int: ...

    @property
    def tracks(self) -> int: ...

    @property
    def probes(self) -> bool:
        """Whether fresh rows need work before they are state. What does not probe only closes, by punctuation."""
        ...

    @property
    def keeps_times_apart(self) -> bool:
        """Whether `combine` only ever puts rows of one #time together: then those that are no longer needed may be left
        out before. It does not hold for operators that probe."""
        ...

    @property
    def result_schema(self) -> pa.Schema: ...

    @property
    def reach(self) -> int:
        """By how much the operator's arithmetic may leave the range of the event times, in either direction."""
        ...

    @property
    def output_times(self) -> tuple[str, ...]:
        """The progressing attributes of the result, in the order of `output_marks`; empty names are for joint ones."""
        ...

    def state_schema(self, port: int) -> pa.Schema:
        """Begins with #hash and #time."""
        ...

    def prepare(self, port: int, rows: pa.Table) -> pa.Table:
        """Input rows as state rows, sorted, pre-aggregated where that is possible."""
        ...

    def arrange(self, port: int, rows: pa.Table) -> pa.Table:
        """Input rows with all their columns behind #hash and #time, sorted: how they travel where they must not be
        prepared yet."""
        ...

    def prepare_arranged(self, port: int, arranged: pa.Table) -> pa.Table:
        """Arranged rows as state rows, sorted. The same as `prepare` of the rows, if their #time has not changed."""
        ...

    def combine(self, port: int, tables: Sequence[pa.Table]) -> pa.Table:
        """One sorted table of state rows from several that are."""
        ...

    def due(self, after: Marks, upto: Marks, least: tuple[int | None, ...]) -> bool:
        """Whether there may be work without fresh rows; `least[port]` is the least #time stored (None: nothing is).
        Where there is none, the marks move on by themselves."""
        ...

    def work(self, portion: Portion) -> Done: ...

    def expired_below(self, port: int, marks: Marks) -> int:
        """State rows of a port with a #time below this are of no use any more."""
        ...

    def span(self, port: int) -> int:
        """About how long state rows live: what compaction keeps apart, so that whole runs can expire."""
        ...

    def output_marks(self, marks: Marks) -> Marks:
        """How far the result has come once all is done up to `marks`: one for each of `output_times`."""
        ...
