"""Logical plan nodes: a continuous query as a frozen tree, from its sink down to its sources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from penstock.expressions import Expr, Named
from penstock.operators.window import Window
from penstock.progress.rules import Rule

AGGREGATES = (
    "count", "sum", "avg", "min", "max", "stddev", "stddev_pop", "variance", "var_pop", "count_distinct",
    "first", "last",
)  # fmt: skip


class Connector(Protocol):
    """How a source is read or a sink is written: a frozen value, equal where the user asked for the same thing."""

    @property
    def kind(self) -> str: ...

    def identity(self) -> dict[str, Any]:
        """What makes it the same source or sink, as plain JSON: part of a query's fingerprint."""
        ...


@dataclass(frozen=True)
class Source:
    """A stream that enters the system. `schema` is normalised; `time` is its progressing attribute."""

    name: str
    schema: pa.Schema
    time: str
    progress: Rule
    connector: Connector


@dataclass(frozen=True)
class Filter:
    input: Node
    predicate: Expr


@dataclass(frozen=True)
class Project:
    input: Node
    columns: tuple[Named, ...]


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
    """A windowed group-by. Its result has the keys, `window_start`, `window_end` and the aggregates, in this order."""

    input: Node
    keys: tuple[Named, ...]
    window: Window
    aggregates: tuple[Aggregation, ...]


Node = Source | Filter | Project | Aggregate


@dataclass(frozen=True)
class Sink:
    """The end of a query: what is written where."""

    input: Node
    connector: Connector
