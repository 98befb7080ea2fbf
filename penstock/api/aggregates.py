"""Aggregates as users write them: `ps.count()`, `ps.avg("duration")`, `ps.sum(ps.col("price") * ps.col("amount"))`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from penstock.api.columns import as_operand
from penstock.api.sql_text import aggregate_of, expression_of
from penstock.errors import QueryError
from penstock.expr.tree import Expr
from penstock.plan.logical import Aggregation
from penstock.plan.naming import aggregate_name


@dataclass(frozen=True)
class AggregateSpec:
    """An aggregate that is not yet bound to a stream. An argument that is a string is parsed when it is bound."""

    function: str
    argument: Expr | str | None

    def over(self, columns: Collection[str]) -> Aggregation:
        """Bind the aggregate to a stream with these columns, under its default name."""
        what = f"{self.function}(...)"
        argument = None if self.argument is None else expression_of(self.argument, columns, what)
        return Aggregation(aggregate_name(self.function, argument), self.function, argument)


def aggregation_of(value: object, columns: Collection[str], name: str = "") -> Aggregation:
    """Return the aggregate that `value` describes: an AggregateSpec, or SQL text such as "sum(qty)". An empty `name`
    means the default name."""
    match value:
        case AggregateSpec():
            found = value.over(columns)
        case str():
            found = aggregate_of(value, columns, f"agg({name}=...)" if name else "agg(...)")
        case _:
            what = f"`{name}`" if name else f"a {type(value).__name__}"
            raise QueryError(
                f"{what} is not an aggregate",
                hint=f'write {name or "n"}=ps.count(), another aggregate, or SQL text, as in "sum(qty)"',
            )
    return replace(found, name=name or found.name)


def count(column: object | None = None) -> AggregateSpec:
    """Count the rows or, with `column`, its values that are not null."""
    return AggregateSpec("count", None if column is None else as_operand(column))


def count_distinct(column: object) -> AggregateSpec:
    """Count the different values of `column` that are not null."""
    return AggregateSpec("count_distinct", as_operand(column))


def sum(column: object) -> AggregateSpec:
    """Sum the values of `column`; an integer sum that does not fit 64 bits is an error."""
    return AggregateSpec("sum", as_operand(column))


def avg(column: object) -> AggregateSpec:
    """Compute the mean of `column` as a DOUBLE."""
    return AggregateSpec("avg", as_operand(column))


def min(column: object) -> AggregateSpec:
    """Find the smallest value of `column`."""
    return AggregateSpec("min", as_operand(column))


def max(column: object) -> AggregateSpec:
    """Find the largest value of `column`."""
    return AggregateSpec("max", as_operand(column))


def stddev(column: object) -> AggregateSpec:
    """Compute the sample standard deviation of `column`."""
    return AggregateSpec("stddev", as_operand(column))


def stddev_pop(column: object) -> AggregateSpec:
    """Compute the population standard deviation of `column`."""
    return AggregateSpec("stddev_pop", as_operand(column))


def variance(column: object) -> AggregateSpec:
    """Compute the sample variance of `column`."""
    return AggregateSpec("variance", as_operand(column))


def var_pop(column: object) -> AggregateSpec:
    """Compute the population variance of `column`."""
    return AggregateSpec("var_pop", as_operand(column))


def first(column: object) -> AggregateSpec:
    """Take the first value of `column` by event time that is not null; among equal times, the smallest."""
    return AggregateSpec("first", as_operand(column))


def last(column: object) -> AggregateSpec:
    """Take the last value of `column` by event time that is not null; among equal times, the largest."""
    return AggregateSpec("last", as_operand(column))
