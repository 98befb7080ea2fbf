"""Aggregates in batch by Spark: rows get what says to which group they belong, and are grouped by it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType
from spark_expressions import NotInSpark, column, named
from spark_times import TIME, each_window, of_integer, with_time

from penstock.operators.window.kinds import EqualTimes, Session
from penstock.operators.window.windows import Window
from penstock.plan.logical import Aggregate, Aggregation

_FUNCTIONS: dict[str, Callable[[Column], Column]] = {
    "count": F.count, "sum": F.sum, "avg": F.avg, "min": F.min, "max": F.max,
    "stddev": F.stddev_samp, "stddev_pop": F.stddev_pop, "variance": F.var_samp, "var_pop": F.var_pop,
}  # fmt: skip


@dataclass(frozen=True)
class _Grouping:
    """Rows, the columns that group them beside the keys, and the result columns that say which group it is."""

    rows: DataFrame
    by: list[Column]
    shown: list[Column]


def aggregate(node: Aggregate, below: DataFrame) -> DataFrame:
    """Keys and arguments are computed first, under names that no column has."""
    keys = [column(key.expression).alias(f"#key {n}") for n, key in enumerate(node.keys)]
    arguments = [column(a.argument).alias(f"#of {a.name}") for a in node.aggregates if a.argument is not None]
    timed = with_time(below, _time(node))
    grouping = _grouping(node, timed.select("*", *keys, *arguments))
    by = [*(F.col(f"#key {n}") for n in range(len(keys))), *grouping.by]
    measured = grouping.rows.groupBy(*by).agg(*(_measure(a).alias(f"#is {a.name}") for a in node.aggregates))
    shown = [F.col(f"#key {n}").alias(key.name) for n, key in enumerate(node.keys)] + grouping.shown
    return measured.select(*shown, *(named(f"#is {a.name}").alias(a.name) for a in node.aggregates))


def _time(node: Aggregate) -> str:
    match node.window:
        case Window(time=time) | Session(time=time):
            return time
        case EqualTimes(times=times):
            return times[0]
    raise NotInSpark("a window over rows")


def _grouping(node: Aggregate, rows: DataFrame) -> _Grouping:
    match node.window:
        case Window(time=time, size=size):
            start, end = F.col("#start"), F.col("#start") + F.lit(size)
            return _Grouping(each_window(rows, node.window), [start], _borders(start, end, rows.schema[time].dataType))
        case Session(time=time, gap=gap):
            return _sessions(rows, gap, rows.schema[time].dataType)
        case EqualTimes(times=times):
            return _Grouping(
                rows, [named(t).alias(f"#at {t}") for t in times], [named(f"#at {t}").alias(t) for t in times]
            )
    raise NotInSpark("a window over rows")


def _sessions(rows: DataFrame, gap: int, like: DataType) -> _Grouping:
    """Spark joins sessions that only touch, Penstock does not. On a clock of half microseconds a gap that is one tick
    shorter tells them apart, and is never zero."""
    ticks = 2 * gap - 1
    half_clock = F.timestamp_micros(F.col(TIME) * 2)
    session = F.session_window(half_clock, f"{ticks} microseconds").alias("#session")
    start, end = F.unix_micros(F.col("#session.start")), F.unix_micros(F.col("#session.end"))
    return _Grouping(rows, [session], _borders(_half(start), _half(end - F.lit(ticks)) + F.lit(gap), like))


def _half(ticks: Column) -> Column:
    return F.shiftright(ticks, 1)


def _borders(start: Column, end: Column, like: DataType) -> list[Column]:
    return [of_integer(start, like).alias("window_start"), of_integer(end, like).alias("window_end")]


def _measure(aggregation: Aggregation) -> Column:
    if aggregation.argument is None:
        return F.count(F.lit(1))
    value = named(f"#of {aggregation.name}")
    if aggregation.function in ("first", "last"):
        best = F.min if aggregation.function == "first" else F.max
        return best(F.when(value.isNotNull(), F.struct(F.col(TIME).alias("t"), value.alias("v")))).getField("v")
    if aggregation.function == "count_distinct":  # that of Spark counts values of merged sessions twice
        return F.size(F.collect_set(value))
    return _FUNCTIONS[aggregation.function](value)
