"""The oracle: the same query over the same rows, computed at once by DuckDB.

It shares nothing with panes, partials, state or punctuation. Every node becomes a table of DuckDB, from the sources up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from itertools import count

import duckdb
import pyarrow as pa

from penstock.expressions import Column
from penstock.expressions_text import quoted, text
from penstock.plan.nodes import (
    Aggregate,
    Distinct,
    Filter,
    InOrder,
    Join,
    MapBatches,
    Node,
    Order,
    Project,
    Source,
    Split,
    TopN,
    Union,
    Windows,
    inputs_of,
)
from penstock.plan.subqueries import node_schema
from penstock.schema import conform
from penstock.testing.oracle_aggregates import aggregate_sql
from penstock.testing.oracle_joins import join_sql
from penstock.testing.oracle_relation import ROW, Relation, computed, exploded, listed, of_integer


def batch_answer(node: Node, tables: Mapping[str, pa.Table]) -> pa.Table:
    """The result of a query over whole tables, given by the names of its sources, their rows in the order of arrival.
    A table may number its rows itself in a column `#row`, where some that arrived are not in it."""
    with opened(tables) as batch:
        return batch.rows(batch.relation(node)).cast(node_schema(node))


@contextmanager
def opened(tables: Mapping[str, pa.Table]) -> Iterator[Batch]:
    """Tables to compute nodes over, for a while."""
    with _database().cursor() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield Batch(connection, tables)


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """One for the process, since opening one takes longer than most answers. Tables are temporary, so that each
    connection to it has its own."""
    return duckdb.connect(config={"threads": 1})


class Batch:
    """The nodes of a query as tables of one connection. A node that stands in the query twice is computed once."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, tables: Mapping[str, pa.Table]) -> None:
        self._connection, self._tables = connection, tables
        # By identity, since nodes with the constants 1 and TRUE are equal in Python. The node is kept, so that no other
        # can come to have its identity.
        self._known: dict[int, tuple[Node, Relation]] = {}
        self._names = (f"node{n}" for n in count())

    def relation(self, node: Node) -> Relation:
        if id(node) not in self._known:
            self._known[id(node)] = node, self._computed(node)
        return self._known[id(node)][1]

    def rows(self, relation: Relation) -> pa.Table:
        return self._connection.sql(f"SELECT {listed(relation.columns)} FROM {relation.name}").to_arrow_table()

    def count(self, relation: Relation) -> int:
        ((rows,),) = self._connection.execute(f"SELECT count(*) FROM {relation.name}").fetchall()
        return int(rows)

    def _computed(self, node: Node) -> Relation:
        below = [self.relation(part) for part in inputs_of(node)]
        match node:
            case Source(name=name, schema=schema):
                return self._stored(_numbered(self._tables[name], schema))
            case MapBatches(function=function, schema=schema):
                rows = self.rows(below[0])
                return self._stored(conform(function.call(rows), schema) if rows.num_rows else schema.empty_table())
            case InOrder():
                return below[0]
        return self._created(node_sql(node, below))

    def _stored(self, rows: pa.Table) -> Relation:
        self._connection.register("given", rows)
        try:
            return self._created("SELECT * FROM given")
        finally:
            self._connection.unregister("given")

    def _created(self, sql: str) -> Relation:
        name = next(self._names)
        self._connection.execute(f"CREATE TEMP TABLE {name} AS {sql}")
        made = self._connection.table(name)
        return Relation(name, dict(zip(made.columns, map(str, made.types), strict=True)))


def _numbered(table: pa.Table, schema: pa.Schema) -> pa.Table:
    numbers = table.column(ROW) if ROW in table.column_names else pa.array(range(table.num_rows), pa.int64())
    return conform(table, schema).append_column(ROW, numbers)


def node_sql(node: Node, below: list[Relation]) -> str:
    """A node over the tables of its inputs. Row numbers pass through what leaves the rows of a source as they are."""
    match node:
        case Filter(predicate=predicate):
            return f"SELECT * FROM {below[0].name} WHERE {text(predicate)}"
        case Split():
            return f"SELECT * FROM {below[0].name} WHERE {_output(node)} = {node.output}"
        case Project(columns=columns):
            row = {ROW: quoted(ROW)} if below[0].numbered else {}
            return computed({c.name: text(c.expression) for c in columns} | row, f"FROM {below[0].name}")
        case Union():
            return " UNION ALL ".join(f"SELECT {listed(part.columns)} FROM {part.name}" for part in below)
        case Windows():
            return _windows(node, below[0])
        case Aggregate():
            return aggregate_sql(node, below[0])
        case Distinct():
            return f"SELECT DISTINCT {listed(below[0].columns)} FROM {below[0].name}"
        case TopN():
            return _top(node, below[0])
        case Join():
            return join_sql(node, below)
    raise NotImplementedError(type(node).__name__)


def _output(node: Split) -> str:
    """The number of the output that a row goes to."""
    branches = " ".join(f"WHEN {text(p)} THEN {n}" for n, p in enumerate(node.predicates))
    return f"CASE {branches} ELSE {len(node.predicates)} END" if branches else "0"


def _windows(node: Windows, below: Relation) -> str:
    window, is_timestamp = node.window, below.is_timestamp(node.window.time)
    timed = f'SELECT *, {below.integer(window.time)} AS "#time" FROM {below.name}'
    rows = exploded(timed, '"#time"', window.size, window.slide, window.offset)
    start, end = (of_integer(b, is_timestamp) for b in ('"#start"', f'"#start" + {window.size}'))
    return f"SELECT {listed(below.columns)}, {start} AS window_start, {end} AS window_end FROM ({rows})"


def _top(node: TopN, below: Relation) -> str:
    parts = [*(text(key) for key in node.keys), *([] if node.time is None else [quoted(node.time)])]
    orders = [*node.order, *(Order(Column(name)) for name in below.columns)]
    part = f"PARTITION BY {', '.join(parts)} " if parts else ""
    place = f"row_number() OVER ({part}ORDER BY {', '.join(map(_ordering, orders))})"
    shown = listed(below.columns) + ("" if node.number is None else f', "#place" AS {quoted(node.number)}')
    return f'SELECT {shown} FROM (SELECT *, {place} AS "#place" FROM {below.name}) WHERE "#place" <= {node.n}'


def _ordering(order: Order) -> str:
    direction, nulls = "DESC" if order.descending else "ASC", "FIRST" if order.nulls_first else "LAST"
    return f"{text(order.expression)} {direction} NULLS {nulls}"
