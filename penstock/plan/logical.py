"""Logical plan nodes: a continuous query as a frozen tree, from its sink down to its sources.

A node may stand in a tree more than once (a view that is read twice); the same node is then computed once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from penstock.errors import QueryError
from penstock.expr.tree import Expr, Named
from penstock.operators.bands import Band
from penstock.operators.window.kinds import Moments, RowWindow, Session
from penstock.operators.window.windows import Window
from penstock.progress.rules import Rule
from penstock.types import sql_type

AGGREGATES = (
    "count", "sum", "avg", "min", "max", "stddev", "stddev_pop", "variance", "var_pop", "count_distinct",
    "first", "last",
)  # fmt: skip
JOINS = ("inner", "left", "right", "full", "semi", "anti")


class Connector(Protocol):
    """How a source is read or a sink is written: a frozen value, equal where the user asked for the same thing."""

    @property
    def kind(self) -> str: ...

    def identity(self) -> dict[str, Any]:
        """What makes it the same source or sink, as plain JSON: part of a query's fingerprint."""
        ...


@dataclass(frozen=True)
class Source:
    """A stream that enters the system. `schema` is normalised; `time` is its progressing attribute. `idle`: after how
    many microseconds of system time without rows others no longer wait for it, or for a substream of it (None: they
    always do). `idle_advances`: while it is idle, system time carries its mark on."""

    name: str
    schema: pa.Schema
    time: str
    progress: Rule
    connector: Connector
    idle: int | None = None
    idle_advances: bool = False

    def __post_init__(self) -> None:
        if self.idle_advances:
            self._check_system_time()

    def _check_system_time(self) -> None:
        """Refuse `idle_advances` where system time says nothing about the time of the stream."""
        kind = self.schema.field(self.time).type
        if not pa.types.is_timestamp(kind):
            raise QueryError(
                f"system time cannot advance the mark of source `{self.name}`",
                detail=f"its time `{self.time}` is {sql_type(kind)}, whose unit and origin nobody knows",
                hint="leave idle_advances out, or give the source a TIMESTAMP column as its time",
            )
        if self.idle is None:
            raise QueryError(
                f"source `{self.name}` does not say when it is idle",
                detail="idle_advances carries its mark on while it is idle, and without `idle` it never is",
                hint="add the time without rows after which it is, as in idle = '10s'",
            )


@dataclass(frozen=True)
class Filter:
    input: Node
    predicate: Expr


@dataclass(frozen=True)
class Split:
    """One output of a filter with m+1 outputs: a row goes to the first predicate that holds, or to the last output.

    Invariant: 0 <= output <= len(predicates).
    """

    input: Node
    predicates: tuple[Expr, ...]
    output: int


@dataclass(frozen=True)
class Project:
    input: Node
    columns: tuple[Named, ...]


@dataclass(frozen=True)
class BatchFunction:
    """A Python function from an Arrow table to an Arrow table; the same one where its name is the same."""

    name: str
    call: Callable[[pa.Table], pa.Table]

    def identity(self) -> dict[str, Any]:
        return {"name": self.name}

    @property
    def kind(self) -> str:
        return "function"


@dataclass(frozen=True)
class MapBatches:
    """Rows through a Python function, which gives rows of `schema`. `time` names the column of it that is still a
    progressing attribute (None: no column is); the function must not give earlier times than it was given."""

    input: Node
    function: BatchFunction
    schema: pa.Schema
    time: str | None


@dataclass(frozen=True)
class Union:
    """All rows of all inputs, columns by position, named as in the first. Invariant: at least one input; the types of
    the columns are equal."""

    inputs: tuple[Node, ...]


@dataclass(frozen=True)
class Windows:
    """Each row once for every window it is in, with `window_start` and `window_end` behind its columns."""

    input: Node
    window: Window


@dataclass(frozen=True)
class Aggregation:
    """One aggregate of an Aggregate node. `argument` is None only for `count` of all rows.

    `first` and `last` are by event time, skip nulls, and break ties by value. `stddev` and `variance` are the sample
    kinds. Aggregates other than the counts are null over no non-null values, the sample kinds also over one.
    """

    name: str
    function: str
    argument: Expr | None


@dataclass(frozen=True)
class Aggregate:
    """A windowed group-by. Its result has the keys, `window_start`, `window_end` and the aggregates, in this order;
    over Moments the times under their own names stand in the place of the window. Of rows, the borders are numbers."""

    input: Node
    keys: tuple[Named, ...]
    window: Window | Session | RowWindow | Moments
    aggregates: tuple[Aggregation, ...]


@dataclass(frozen=True)
class Distinct:
    """Rows that are equal in all columns, once. `time`: the progressing attribute by which they are forgotten."""

    input: Node
    time: str


@dataclass(frozen=True)
class Order:
    """An ordering by an expression."""

    expression: Expr
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True)
class TopN:
    """Of the rows with equal keys (and equal `time`, if it is given) the first `n` in an order; ties are broken by the
    values of all columns, smallest first, nulls last. `number` names a column with the place of each row, from 1
    (None: no such column), behind the columns of the input. Without `time` the result comes at the end of the
    stream."""

    input: Node
    keys: tuple[Expr, ...]
    time: str | None
    order: tuple[Order, ...]
    n: int
    number: str | None


@dataclass(frozen=True)
class Join:
    """Combinations of one row of each input with equal keys, times within the bands, for which the condition holds.

    `keys[i]` are expressions over input i, equally many for all; a null equals nothing. Without keys it is a theta
    join. `times[i]` is the progressing attribute of input i that the bands are about. `names[i]` are what the columns
    of input i are called in the result, all different; the condition uses those names. Kinds other than inner have two
    inputs; semi and anti joins give the columns of the first input only, though their condition may use all.
    `last_rows`: the theta join over the last n rows of each input instead of bands.
    """

    inputs: tuple[Node, ...]
    kind: str
    keys: tuple[tuple[Expr, ...], ...]
    times: tuple[str, ...]
    bands: tuple[Band, ...]
    condition: Expr | None
    names: tuple[tuple[str, ...], ...]
    last_rows: tuple[int, int] | None = None


@dataclass(frozen=True)
class InOrder:
    """The same rows, held back and let through in order of `time`: all of them, or those with equal values of `by`."""

    input: Node
    time: str
    by: tuple[str, ...] = ()


Node = (
    Source | Filter | Split | Project | MapBatches | Union | Windows | Aggregate | Distinct | TopN | Join | InOrder
)  # fmt: skip


def inputs_of(node: Node) -> tuple[Node, ...]:
    """The nodes that a node reads."""
    match node:
        case Source():
            return ()
        case Union(inputs=inputs) | Join(inputs=inputs):
            return inputs
        case _:
            return (node.input,)


@dataclass(frozen=True)
class Sink:
    """The end of a query: what is written where."""

    input: Node
    connector: Connector
