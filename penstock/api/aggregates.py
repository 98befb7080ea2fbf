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
    """An aggregate that has neither its name nor its stream yet; an argument that is a string is read then."""

    function: str
    argument: Expr | str | None

    def over(self, columns: Collection[str]) -> Aggregation:
        """The aggregate over these columns, under its usual name."""
        what = f"{self.function}(...)"
        argument = None if self.argument is None else expression_of(self.argument, columns, what)
        return Aggregation(aggregate_name(self.function, argument), self.function, argument)


def aggregation_of(value: object, columns: Collection[str], name: str = "") -> Aggregation:
    """What `agg` is given: an aggregate, or one as SQL text, such as "sum(qty)"; without a `name` by its usual one."""
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
    """How many rows; with a column, how many of its values are not null."""
    return AggregateSpec("count", None if column is None else as_operand(column))


def count_distinct(column: object) -> AggregateSpec:
    """How many different values that are not null."""
    return AggregateSpec("count_distinct", as_operand(column))


def sum(column: object) -> AggregateSpec:
    """The sum; an integer sum that does not fit 64 bits is an error."""
    return AggregateSpec("sum", as_operand(column))


def avg(column: object) -> AggregateSpec:
    """The mean, as a double."""
    return AggregateSpec("avg", as_operand(column))


def min(column: object) -> AggregateSpec:
    """The least value."""
    return AggregateSpec("min", as_operand(column))


def max(column: object) -> AggregateSpec:
    """The greatest value."""
    return AggregateSpec("max", as_operand(column))


def stddev(column: object) -> AggregateSpec:
    """The sample standard deviation."""
    return AggregateSpec("stddev", as_operand(column))


def stddev_pop(column: object) -> AggregateSpec:
    """The population standard deviation."""
    return AggregateSpec("stddev_pop", as_operand(column))


def variance(column: object) -> AggregateSpec:
    """The sample variance."""
    return AggregateSpec("variance", as_operand(column))


def var_pop(column: object) -> AggregateSpec:
    """The population variance."""
    return AggregateSpec("var_pop", as_operand(column))


def first(column: object) -> AggregateSpec:
    """The value of the earliest row by event time that is not null; the least one where times are equal."""
    return AggregateSpec("first", as_operand(column))


def last(column: object) -> AggregateSpec:
    """The value of the latest row by event time that is not null; the greatest one where times are equal."""
    return AggregateSpec("last", as_operand(column))
