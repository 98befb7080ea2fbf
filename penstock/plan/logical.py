"""Logical plan nodes: a continuous query as an immutable tree, from its sink down to its sources.

A node may occur in a tree more than once (a view that is read twice); it is then computed once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from penstock.errors import QueryError
from penstock.expr.tree import Expr, Named
from penstock.operators.bands import Band
from penstock.operators.window.kinds import EqualTimes, RowWindow, Session
from penstock.operators.window.windows import Window
from penstock.progress.mark import Rule
from penstock.type_names import sql_type

AGGREGATES = (
    "count", "sum", "avg", "min", "max", "stddev", "stddev_pop", "variance", "var_pop", "count_distinct",
    "first", "last",
)  # fmt: skip
JOINS = ("inner", "left", "right", "full", "semi", "anti")


class Connector(Protocol):
    """The description of how a source is read or a sink is written: an immutable value, equal to another if the user
    asked for the same thing."""

    @property
    def kind(self) -> str: ...

    def identity(self) -> dict[str, Any]:
        """Return, as plain JSON, the properties that make it the same source or sink: part of the query's
        fingerprint."""
        ...


@dataclass(frozen=True)
class Source:
    """A stream that enters the system. `schema` is normalised, and `time` is its progressing attribute. After `idle`
    microseconds of system time without rows, others no longer wait for the source or a substream of it (None: they
    always wait). With `idle_advances`, system time advances its mark while it is idle."""

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
        """Raise QueryError if `idle_advances` cannot apply: system time must be comparable with the time of the
        stream."""
        kind = self.schema.field(self.time).type
        if not pa.types.is_timestamp(kind):
            raise QueryError(
                f"system time cannot advance the mark of source `{self.name}`",
                detail=f"its time `{self.time}` is {sql_type(kind)}, which has no known unit or origin",
                hint="leave idle_advances out, or give the source a TIMESTAMP column as its time",
            )
        if self.idle is None:
            raise QueryError(
                f"source `{self.name}` does not say when it is idle",
                detail="idle_advances advances its mark while it is idle, and without `idle` it is never idle",
                hint="add the time without rows after which it is idle, as in idle = '10s'",
            )


@dataclass(frozen=True)
class Filter:
    """The rows for which the predicate is true."""

    input: Node
    predicate: Expr


@dataclass(frozen=True)
class SplitRows:
    """One output of a filter with m+1 outputs: a row goes to the output of the first predicate that is true, or to the
    last output.

    Invariant: 0 <= output <= len(predicates).
    """

    input: Node
    predicates: tuple[Expr, ...]
    output: int


@dataclass(frozen=True)
class Project:
    """The input with new columns, each computed from one row."""

    input: Node
    columns: tuple[Named, ...]


@dataclass(frozen=True)
class BatchFunction:
    """A Python function from an Arrow table to an Arrow table. Functions with equal names count as equal."""

    name: str
    call: Callable[[pa.Table], pa.Table]

    def identity(self) -> dict[str, Any]:
        return {"name": self.name}

    @property
    def kind(self) -> str:
        return "function"


@dataclass(frozen=True)
class MapBatches:
    """The rows that a Python function returns, of schema `schema`. `time` names the column that is still a progressing
    attribute (None: there is none); the function must not return earlier times than it received."""

    input: Node
    function: BatchFunction
    schema: pa.Schema
    time: str | None


@dataclass(frozen=True)
class Union:
    """All rows of all inputs, columns by position, with the names of the first input. Invariant: at least one input;
    the column types are equal."""

    inputs: tuple[Node, ...]


@dataclass(frozen=True)
class AssignWindows:
    """Each row once per window that contains it, with `window_start` and `window_end` after its columns."""

    input: Node
    window: Window


@dataclass(frozen=True)
class Aggregation:
    """One aggregate of an Aggregate node. `argument` is None only for `count` of all rows.

    `first` and `last` are by event time, skip nulls, and break ties by value. `stddev` and `variance` are the sample
    versions. Aggregates other than counts are null over no non-null values, the sample versions also over one.
    """

    name: str
    function: str
    argument: Expr | None


@dataclass(frozen=True)
class Aggregate:
    """A windowed group-by. The result has the keys, `window_start`, `window_end` and the aggregates, in this order. For
    EqualTimes, the time columns replace the window columns. For windows of rows, the bounds are row numbers."""

    input: Node
    keys: tuple[Named, ...]
    window: Window | Session | RowWindow | EqualTimes
    aggregates: tuple[Aggregation, ...]


@dataclass(frozen=True)
class Distinct:
    """The rows without duplicates over all columns. `time` is the progressing attribute by which state expires."""

    input: Node
    time: str


@dataclass(frozen=True)
class Order:
    """A sort order by an expression."""

    expression: Expr
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True)
class TopN:
    """The first `n` rows in an order, per equal keys (and equal `time`, if given). Ties are broken by the values of all
    columns, smallest first, nulls last. `number` names a column, after those of the input, with the rank of each row
    from 1 (None: no such column). Without `time` the result comes at the end of the stream."""

    input: Node
    keys: tuple[Expr, ...]
    time: str | None
    order: tuple[Order, ...]
    n: int
    number: str | None


@dataclass(frozen=True)
class Join:
    """Combinations of one row of each input with equal keys and times within the bands, for which the condition is
    true.

    `keys[i]` are expressions over input i, the same number for all; a null equals nothing. Without keys this is a theta
    join. `times[i]` is the progressing attribute of input i that the bands refer to. `names[i]` are the names of the
    columns of input i in the result, all different; the condition uses those names. Kinds other than inner have two
    inputs; semi and anti joins return the columns of the first input only, though their condition may use all.
    `last_rows` makes it a theta join over the last n rows of each input instead of bands.
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
    """The same rows, held back and released in order of `time`: all of them, or separately for equal values of `by`."""

    input: Node
    time: str
    by: tuple[str, ...] = ()


Node = (
    Source | Filter | SplitRows | Project | MapBatches | Union | AssignWindows
    | Aggregate | Distinct | TopN | Join | InOrder
)  # fmt: skip


def inputs_of(node: Node) -> tuple[Node, ...]:
    """Return the inputs of a node."""
    match node:
        case Source():
            return ()
        case Union(inputs=inputs) | Join(inputs=inputs):
            return inputs
        case _:
            return (node.input,)


@dataclass(frozen=True)
class Sink:
    """The end of a query: which stream is written to which connector."""

    input: Node
    connector: Connector
