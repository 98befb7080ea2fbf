"""A second oracle: the batch answer of a query by Spark's DataFrames.

It shares nothing with Penstock's kernels, nor with the oracle that asks DuckDB. Times become the integers they stand
for; windows and bands are arithmetic on these. What Spark cannot say raises NotInSpark: windows over rows, joins over
the last rows, functions over batches.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import Window as Over
from pyspark.sql import functions as F
from spark_aggregates import aggregate
from spark_expressions import NotInSpark, column, named
from spark_joins import join
from spark_times import each_window, of_integer, with_time

from penstock.operators.window.kinds import RowWindow
from penstock.plan.compile.subqueries import node_schema
from penstock.plan.logical import (
    Aggregate,
    AssignWindows,
    Distinct,
    Filter,
    InOrder,
    Join,
    MapBatches,
    Node,
    Order,
    Project,
    Source,
    SplitRows,
    TopN,
    Union,
    inputs_of,
)
from penstock.types import conform

__all__ = ["NotInSpark", "batch_session", "frames_of", "spark_answer"]

_OPTIONS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.caseSensitive": "true",
    "spark.sql.ansi.enabled": "false",  # so that a division by zero is null
    "spark.sql.shuffle.partitions": "2",
    # For a hundred rows, compiling a plan takes longer than interpreting it.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def batch_session(session: SparkSession) -> SparkSession:
    """A session of its own on the same context, set up for many small queries."""
    own = session.newSession()
    for name, value in _OPTIONS.items():
        own.conf.set(name, value)
    return own


def frames_of(session: SparkSession, node: Node, tables: Mapping[str, pa.Table]) -> dict[str, DataFrame]:
    """The rows of the sources below a node as data frames, by the names of the sources."""
    if isinstance(node, Source):
        rows = conform(tables[node.name], node.schema).combine_chunks()  # of several chunks PySpark 4.3 loses rows
        return {node.name: session.createDataFrame(rows)}
    return reduce(lambda found, part: found | frames_of(session, part, tables), inputs_of(node), {})


def spark_answer(node: Node, frames: Mapping[str, DataFrame]) -> pa.Table:
    """The result of a query over whole tables, given by the names of its sources."""
    _require_sayable(node)
    return _frame(node, frames).toArrow().cast(node_schema(node))


def _require_sayable(node: Node) -> None:
    """Told before anything is computed, so that a sample can skip a query quickly."""
    match node:
        case MapBatches() | Aggregate(window=RowWindow()):
            raise NotInSpark(type(node).__name__)
        case Join(last_rows=last) if last is not None:
            raise NotInSpark("a join over the last rows")
    for part in inputs_of(node):
        _require_sayable(part)


def _frame(node: Node, frames: Mapping[str, DataFrame]) -> DataFrame:
    below = [_frame(part, frames) for part in inputs_of(node)]
    match node:
        case Source(name=name):
            return frames[name]
        case InOrder():
            return below[0]
        case Filter(predicate=predicate):
            return below[0].where(column(predicate))
        case SplitRows():
            return below[0].where(_output(node) == node.output)
        case Project(columns=columns):
            return below[0].select(*(column(c.expression).alias(c.name) for c in columns))
        case Union():
            return reduce(DataFrame.unionAll, below)
        case AssignWindows():
            return _windows(node, below[0])
        case Aggregate():
            return aggregate(node, below[0])
        case Distinct():
            return below[0].distinct()
        case TopN():
            return _top(node, below[0])
        case Join():
            return join(node, below)
    raise NotInSpark(type(node).__name__)


def _output(node: SplitRows) -> Column:
    """The number of the output that a row goes to."""
    chosen = F.lit(len(node.predicates))
    for n, predicate in reversed(list(enumerate(node.predicates))):
        chosen = F.when(column(predicate), F.lit(n)).otherwise(chosen)
    return chosen


def _windows(node: AssignWindows, below: DataFrame) -> DataFrame:
    window, like = node.window, below.schema[node.window.time].dataType
    rows = each_window(with_time(below, window.time), window)
    start, end = F.col("#start"), F.col("#start") + F.lit(window.size)
    borders = [of_integer(start, like).alias("window_start"), of_integer(end, like).alias("window_end")]
    return rows.select(*map(named, below.columns), *borders)


def _top(node: TopN, below: DataFrame) -> DataFrame:
    parts = [*map(column, node.keys), *([] if node.time is None else [named(node.time)])]
    by = [*map(_ordering, node.order), *(named(name).asc_nulls_last() for name in below.columns)]
    placed = below.withColumn("#place", F.row_number().over(Over.partitionBy(*parts).orderBy(*by)))
    number = [] if node.number is None else [F.col("#place").alias(node.number)]
    return placed.where(F.col("#place") <= node.n).select(*map(named, below.columns), *number)


def _ordering(order: Order) -> Column:
    value = column(order.expression)
    if order.descending:
        return value.desc_nulls_first() if order.nulls_first else value.desc_nulls_last()
    return value.asc_nulls_first() if order.nulls_first else value.asc_nulls_last()
