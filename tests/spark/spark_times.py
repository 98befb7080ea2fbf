"""Times of data frames as the integers they stand for, and back; the windows a time is in."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, TimestampNTZType
from spark_expressions import named

from penstock.operators.window.windows import Window

TIME = "#time"


def integer(frame: DataFrame, time: str) -> Column:
    """Microseconds since 1970, or the number that the time is. The session's time zone is UTC."""
    if isinstance(frame.schema[time].dataType, TimestampNTZType):
        return F.unix_micros(named(time).cast("timestamp"))
    return named(time)


def of_integer(value: Column, like: DataType) -> Column:
    """The time that an integer stands for, of the type of another."""
    return F.timestamp_micros(value).cast("timestamp_ntz") if isinstance(like, TimestampNTZType) else value


def with_time(frame: DataFrame, time: str) -> DataFrame:
    return frame.withColumn(TIME, integer(frame, time))


def each_window(frame: DataFrame, window: Window) -> DataFrame:
    """Each row once for every window that its TIME is in, with `#start` as a further column."""
    last = F.col(TIME) - F.pmod(F.col(TIME) - F.lit(window.offset), F.lit(window.slide))
    others = (-(-window.size // window.slide) - 1) * window.slide
    starts = F.sequence(last - F.lit(others), last, F.lit(window.slide).cast("bigint"))
    return frame.withColumn("#start", F.explode(starts)).where(F.col("#start") + F.lit(window.size) > F.col(TIME))
