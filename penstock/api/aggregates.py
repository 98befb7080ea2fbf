"""Aggregates as users write them: `ps.count()`, `ps.avg("duration")`, `ps.sum(ps.col("price") * ps.col("amount"))`."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.api.columns import as_column
from penstock.expressions import Expr
from penstock.plan.nodes import Aggregation


@dataclass(frozen=True)
class AggregateSpec:
    """An aggregate that does not have its name yet."""

    function: str
    argument: Expr | None

    def named(self, name: str) -> Aggregation:
        return Aggregation(name, self.function, self.argument)


def count(column: object | None = None) -> AggregateSpec:
    """How many rows; with a column, how many of its values are not null."""
    return AggregateSpec("count", None if column is None else as_column(column))


def count_distinct(column: object) -> AggregateSpec:
    """How many different values that are not null."""
    return AggregateSpec("count_distinct", as_column(column))


def sum(column: object) -> AggregateSpec:
    """The sum; an integer sum that does not fit 64 bits is an error."""
    return AggregateSpec("sum", as_column(column))


def avg(column: object) -> AggregateSpec:
    """The mean, as a double."""
    return AggregateSpec("avg", as_column(column))


def min(column: object) -> AggregateSpec:
    """The least value."""
    return AggregateSpec("min", as_column(column))


def max(column: object) -> AggregateSpec:
    """The greatest value."""
    return AggregateSpec("max", as_column(column))


def stddev(column: object) -> AggregateSpec:
    """The sample standard deviation."""
    return AggregateSpec("stddev", as_column(column))


def stddev_pop(column: object) -> AggregateSpec:
    """The population standard deviation."""
    return AggregateSpec("stddev_pop", as_column(column))


def variance(column: object) -> AggregateSpec:
    """The sample variance."""
    return AggregateSpec("variance", as_column(column))


def var_pop(column: object) -> AggregateSpec:
    """The population variance."""
    return AggregateSpec("var_pop", as_column(column))


def first(column: object) -> AggregateSpec:
    """The value of the earliest row by event time that is not null; the least one where times are equal."""
    return AggregateSpec("first", as_column(column))


def last(column: object) -> AggregateSpec:
    """The value of the latest row by event time that is not null; the greatest one where times are equal."""
    return AggregateSpec("last", as_column(column))
