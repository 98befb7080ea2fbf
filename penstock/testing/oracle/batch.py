"""Batch oracle: the same query over the same rows, computed at once by DuckDB.

It shares no code with panes, partials, state or punctuation. Every node becomes a DuckDB table, from the sources up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from itertools import count

import duckdb
import pyarrow as pa

from penstock.api.streams import Stream
from penstock.expr.text import quoted, text
from penstock.expr.tree import Column
from penstock.operators.window.kinds import EqualTimes
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
from penstock.testing.oracle import late as oracle_late
from penstock.testing.oracle.aggregates import aggregate_sql
from penstock.testing.oracle.joins import join_sql
from penstock.testing.oracle.relation import MARK, ROW, Relation, computed, exploded, listed, of_integer
from penstock.testing.source_rows import tables_of
from penstock.types import conform

# By source and place of a row: for each operator that missed it, the start of the first and the end of the last window
# that did; (None, None) if the row was late as a whole.
Late = dict[tuple[str, int], set[tuple[int | None, int | None]]]


def batch_answer(query: Stream | Node, tables: Mapping[str, pa.Table] | None = None) -> pa.Table:
    """Return the result of a query over whole tables. `tables` maps source names to rows in order of arrival; without
    it, the rows of the query's in-memory sources are used. A table may number its rows in a column `#row`, if some that
    arrived are not in it. A table with a column `#mark` has late rows: the column is the punctuation that each row came
    behind."""
    node = query.node if isinstance(query, Stream) else query
    return answer_and_late(node, tables_of(node) if tables is None else tables)[0]


def answer_and_late(node: Node, tables: Mapping[str, pa.Table]) -> tuple[pa.Table, Late]:
    """Return the result of a query, and its late rows."""
    with opened(tables) as batch:
        rows = batch.result(node).cast(node_schema(node))
        return rows, batch.late


@contextmanager
def opened(tables: Mapping[str, pa.Table]) -> Iterator[Batch]:
    """Open tables to compute nodes over; they are dropped at the end of the block."""
    with _database().cursor() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield Batch(connection, tables)


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """Return the database of this process; opening one takes longer than most answers. Tables are temporary, so each
    connection has its own."""
    return duckdb.connect(config={"threads": 1})


class Batch:
    """The nodes of a query as tables of one connection. A node that occurs twice in the query is computed once.
    Invariant: `late` holds the late rows of all operators computed so far, and which windows missed them."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, tables: Mapping[str, pa.Table]) -> None:
        self._connection, self._tables = connection, tables
        self.late: Late = {}
        # By identity, because nodes with the constants 1 and TRUE are equal in Python. The node is kept alive, so that
        # its id is not reused.
        self._known: dict[int, tuple[Node, Relation]] = {}
        self._names = (f"node{n}" for n in count())

    def relation(self, node: Node) -> Relation:
        """Return the table of a node; compute it on first use."""
        if id(node) not in self._known:
            self._known[id(node)] = node, self._computed(node)
        return self._known[id(node)][1]

    def result(self, node: Node) -> pa.Table:
        """Return the rows at the end of a query, without late ones."""
        relation = self.relation(node)
        self._note_rows(oracle_late.direct_sources(node))
        return self.rows(self._on_time(relation))

    def rows(self, relation: Relation) -> pa.Table:
        """Return the rows of a relation as an Arrow table."""
        found: pa.Table = self._connection.sql(
            f"SELECT {listed(relation.columns)} FROM {relation.name}"
        ).to_arrow_table()
        return found

    def count(self, relation: Relation) -> int:
        """Return the number of rows of a relation."""
        ((rows,),) = self._connection.execute(f"SELECT count(*) FROM {relation.name}").fetchall()
        return int(rows)

    def _computed(self, node: Node) -> Relation:
        below = [self.relation(part) for part in inputs_of(node)]
        if isinstance(node, Aggregate | Distinct | TopN | Join | InOrder):
            below = [self._taken(node, port, relation) for port, relation in enumerate(below)]
        match node:
            case Source():
                return self._source(node)
            case MapBatches(function=function, schema=schema):
                rows = self.rows(self._on_time(below[0]))
                return self._stored(conform(function.call(rows), schema) if rows.num_rows else schema.empty_table())
            case InOrder():
                return below[0]
        return self._created(node_sql(node, below))

    def _source(self, node: Source) -> Relation:
        given = self._tables[node.name]
        rows = _numbered(given, node.schema)
        if MARK not in given.column_names:
            return self._stored(rows)
        stored = self._stored(rows.append_column(MARK, given.column(MARK)))
        return self._created(oracle_late.of_source(node, f"SELECT * FROM {stored.name}", ROW))

    def _on_time(self, relation: Relation) -> Relation:
        """Return the rows that were not behind the punctuation at their arrival."""
        if oracle_late.BEHIND not in relation.types:
            return relation
        return self._created(f'SELECT * FROM {relation.name} WHERE NOT coalesce("{oracle_late.BEHIND}", false)')

    def _taken(self, node: Node, port: int, below: Relation) -> Relation:
        """Return the rows of an input that an operator accepts, and record the late ones."""
        if (late := oracle_late.missed(node, port, below)) is not None:
            for source, place, first, last in self._connection.execute(late).fetchall():
                self.late.setdefault((source, place), set()).add((first, last))
        by_window = isinstance(node, Aggregate) and not isinstance(node.window, EqualTimes)
        time = oracle_late.time_of(node, port)
        self._note_rows(oracle_late.judged_as_rows(inputs_of(node)[port], time, by_window))
        return self._created(oracle_late.in_time(node, port, below)) if below.helpers else below

    def _note_rows(self, sources: Iterable[Source]) -> None:
        """Record the rows of these sources that are late as a whole."""
        for source in sources:
            relation = self.relation(source)
            if oracle_late.BEHIND in relation.types:
                behind = f'SELECT "{oracle_late.PLACE_IN_SOURCE}" FROM {relation.name} WHERE "{oracle_late.BEHIND}"'
                for (place,) in self._connection.execute(behind).fetchall():
                    self.late.setdefault((source.name, place), set()).add((None, None))

    def _stored(self, rows: pa.Table) -> Relation:
        """Store an Arrow table as a relation."""
        self._connection.register("given", rows)
        try:
            return self._created("SELECT * FROM given")
        finally:
            self._connection.unregister("given")

    def _created(self, sql: str) -> Relation:
        """Create a temporary table from SQL and return it as a relation."""
        name = next(self._names)
        self._connection.execute(f"CREATE TEMP TABLE {name} AS {sql}")
        made = self._connection.table(name)
        return Relation(name, dict(zip(made.columns, map(str, made.types), strict=True)))


def _numbered(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Add row numbers in order of arrival, unless the table has them."""
    numbers = table.column(ROW) if ROW in table.column_names else pa.array(range(table.num_rows), pa.int64())
    return conform(table, schema).append_column(ROW, numbers)


def node_sql(node: Node, below: list[Relation]) -> str:
    """Return SQL for a node over the tables of its inputs. Row numbers are kept as long as rows are those of a
    source."""
    match node:
        case Filter(predicate=predicate):
            return f"SELECT * FROM {below[0].name} WHERE {text(predicate)}"
        case SplitRows():
            return f"SELECT * FROM {below[0].name} WHERE {_output(node)} = {node.output}"
        case Project(columns=columns):
            row = {ROW: quoted(ROW)} if below[0].numbered else {}
            row |= oracle_late.projected(node, below[0])
            return computed({c.name: text(c.expression) for c in columns} | row, f"FROM {below[0].name}")
        case Union():
            helpers = oracle_late.united(below)
            return " UNION ALL ".join(map(_part, below, helpers))
        case AssignWindows():
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


def _part(part: Relation, helpers: Mapping[str, str]) -> str:
    columns = {**{name: quoted(name) for name in part.columns}, **helpers}
    return f"SELECT {', '.join(f'{sql} AS {quoted(name)}' for name, sql in columns.items())} FROM {part.name}"


def _output(node: SplitRows) -> str:
    """Return SQL for the number of the output that a row goes to."""
    branches = " ".join(f"WHEN {text(p)} THEN {n}" for n, p in enumerate(node.predicates))
    return f"CASE {branches} ELSE {len(node.predicates)} END" if branches else "0"


def _windows(node: AssignWindows, below: Relation) -> str:
    window, is_timestamp = node.window, below.is_timestamp(node.window.time)
    timed = f'SELECT *, {below.integer(window.time)} AS "#time" FROM {below.name}'
    rows = exploded(timed, '"#time"', window.size, window.slide, window.offset)
    start, end = (of_integer(b, is_timestamp) for b in ('"#start"', f'"#start" + {window.size}'))
    columns = {name: quoted(name) for name in below.columns} | {"window_start": start, "window_end": end}
    return computed(columns | oracle_late.assigned(window, below), f"FROM ({rows})")


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
