"""The oracle: the same query over the same rows, computed at once by DuckDB.

It shares nothing with panes, partials or punctuation: every row is unnested into each window it is in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import duckdb
import pyarrow as pa

from penstock.expressions import Named
from penstock.expressions_text import quoted, text
from penstock.operators.window import Window
from penstock.plan.columns import time_type
from penstock.plan.nodes import Aggregate, Aggregation, Filter, Node, Project, Source
from penstock.plan.subqueries import node_schema

_FUNCTIONS = {"stddev": "stddev_samp", "variance": "var_samp"}


def batch_answer(node: Node, tables: Mapping[str, pa.Table]) -> pa.Table:
    """The result of a query over whole tables, given by the names of its sources."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, table in tables.items():
            connection.register(name, table)
        return connection.sql(batch_sql(node)).to_arrow_table().cast(node_schema(node))


def batch_sql(node: Node) -> str:
    match node:
        case Source(name=name):
            return f"SELECT * FROM {quoted(name)}"
        case Filter(below, predicate):
            return f"SELECT * FROM ({batch_sql(below)}) WHERE {text(predicate)}"
        case Project(below, columns):
            return f"SELECT {_select_list(columns)} FROM ({batch_sql(below)})"
        case Aggregate():
            return _aggregate(node)


def _select_list(columns: Iterable[Named]) -> str:
    return ", ".join(f"{text(c.expression)} AS {quoted(c.name)}" for c in columns)


def _aggregate(node: Aggregate) -> str:
    is_timestamp = pa.types.is_timestamp(time_type(node.input))
    start, end = (f"make_timestamp({b})" if is_timestamp else b for b in ('"#start"', f'"#start" + {node.window.size}'))
    borders = f"{start} AS window_start, {end} AS window_end"
    measures = [f"{_measure(a)} AS {quoted(a.name)}" for a in node.aggregates]
    keys = [f"{text(k.expression)} AS {quoted(f'#key {k.name}')}" for k in node.keys]
    grouped = ", ".join(['"#start"', *(quoted(f"#key {k.name}") for k in node.keys)])
    shown = [f"{quoted(f'#key {k.name}')} AS {quoted(k.name)}" for k in node.keys]
    exploded = _exploded(batch_sql(node.input), node.window, is_timestamp)
    rows = f"SELECT {', '.join(['*', *keys])} FROM ({exploded})"
    return f"SELECT {', '.join([*shown, borders, *measures])} FROM ({rows}) GROUP BY {grouped}"


def _exploded(below: str, window: Window, is_timestamp: bool) -> str:
    """Each row once for every window it is in, as `#start`; its time as the integer `#time`."""
    time = f"epoch_us({quoted(window.time)})" if is_timestamp else quoted(window.time)
    size, slide, offset = window.size, window.slide, window.offset
    last = f'"#time" - ((("#time" - {offset}) % {slide} + {slide}) % {slide})'
    windows = -(-size // slide)
    timed = f'SELECT *, {time} AS "#time" FROM ({below})'
    tried = f'SELECT *, {last} - {slide} * unnest(generate_series(0, {windows - 1})) AS "#start" FROM ({timed})'
    return f'SELECT * FROM ({tried}) WHERE "#start" + {size} > "#time"'


def _measure(aggregation: Aggregation) -> str:
    function = aggregation.function
    if aggregation.argument is None:
        return "count(*)"
    argument = text(aggregation.argument)
    match function:
        case "count_distinct":
            return f"count(DISTINCT {argument})"
        case "first" | "last":
            best = "min" if function == "first" else "max"
            return f"({best}({{'t': \"#time\", 'v': {argument}}}) FILTER (WHERE ({argument}) IS NOT NULL)).v"
    return f"{_FUNCTIONS.get(function, function)}({argument})"
