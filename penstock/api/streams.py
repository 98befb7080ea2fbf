"""Streams: queries under construction. Every method gives a new stream; nothing runs before `start`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.api.aggregates import aggregation_of
from penstock.api.nodes import (
    Schema,
    Within,
    asc,
    checked,
    desc,
    in_order_node,
    join_node,
    map_node,
    numbered_names,
    prefixed_names,
    top_node,
    union_node,
)
from penstock.api.sql_text import expression_of, items_of
from penstock.api.times import Usual, chosen_period, chosen_time, event_time, window_of, window_time
from penstock.api.windows import SessionSpec, WindowSpec
from penstock.api.write import Destinations
from penstock.errors import QueryError
from penstock.expr.tree import Column, Named
from penstock.operators.window.kinds import Moments, RowWindow, Session
from penstock.operators.window.windows import Window
from penstock.plan.compile.subqueries import node_schema
from penstock.plan.logical import Aggregate, Distinct, Filter, Node, Project, Split, Windows
from penstock.plan.schema import WINDOW_COLUMNS, WINDOW_START, columns_of_node, times_of


@dataclass(frozen=True)
class Stream:
    """A stream of rows. `wide` is what `select` may choose from, where that is more than the stream shows."""

    node: Node
    wide: Node | None = None

    @property
    def schema(self) -> pa.Schema:
        return node_schema(self.node)

    @property
    def times(self) -> tuple[str, ...]:
        """The columns that punctuation bounds, so that windows, joins and the like can go by them; the usual first."""
        return times_of(self.node)

    def where(self, condition: object) -> Stream:
        """The rows for which the condition holds: `where(col("qty") > 1)`, or as SQL text, `where("qty > 1")`. Right
        behind an aggregate it is what HAVING is in SQL, and may also use `window_end`."""
        below = self.wide or self.node
        kept = self._checked(Filter(below, expression_of(condition, columns_of_node(below), "where(...)")))
        match self.node:
            case Project(columns=shown) if self.wide is not None:
                return Stream(Project(kept.node, shown), wide=kept.node)
        return kept

    def split(self, *conditions: object) -> tuple[Stream, ...]:
        """A stream for each condition, and one more: each row goes to the first condition that holds, or to the
        last stream."""
        columns = columns_of_node(self.node)
        predicates = tuple(expression_of(condition, columns, "split(...)") for condition in conditions)
        return tuple(self._checked(Split(self.node, predicates, n)) for n in range(len(predicates) + 1))

    def select(self, *columns: object, **computed: object) -> Stream:
        """Some columns, by name, as expressions or as SQL text (`"a + b AS c"`); computed ones get their keyword as a
        name. A string that is the name of a column is that column; a text constant is `ps.lit("...")`."""
        below = self.wide or self.node
        return self._checked(Project(below, items_of(columns, computed.items(), columns_of_node(below), "select")))

    def with_columns(self, **computed: object) -> Stream:
        """All columns, and more, as expressions or as SQL text (`total="price * amount"`); one with a known name
        replaces it."""
        below = self.wide or self.node
        added = items_of((), computed.items(), columns_of_node(below), "with_columns")
        kept = [Named(n, Column(n)) for n in columns_of_node(self.node) if n not in computed]
        return self._checked(Project(below, (*kept, *added)))

    def map_batches(
        self,
        function: Callable[[pa.Table], pa.Table],
        schema: Schema,
        *,
        time: str | Usual | None = Usual.TIME,
        name: str | None = None,
    ) -> Stream:
        """Rows through a Python function from Arrow table to Arrow table, whatever rows it is given at once. `schema`
        is that of its result, as SQL types by column name or as an Arrow schema. `time` names the column that is the
        stream's time behind it, and no earlier than before (without it: the usual time, if the schema has it; None:
        there is none). A checkpoint knows the function by its name."""
        return self._checked(map_node(self.node, function, schema, time, name))

    def union(self, *others: Stream) -> Stream:
        """All rows of all streams; columns go by position, and are called as in this one."""
        return self._checked(union_node([self.node, *(other.node for other in others)]))

    def distinct(self, *, time: str | None = None) -> Stream:
        """Rows that are equal in all columns, once. A row is remembered until the stream's time has passed it."""
        return self._checked(Distinct(self.node, chosen_time(self.node, time, "distinct")))

    def windowed(self, window: WindowSpec) -> Stream:
        """Each row once for every window it is in, with `window_start` and `window_end` as further columns."""
        if not isinstance(window, WindowSpec):
            raise QueryError("rows can only be assigned to windows of time", hint="use ps.tumbling or ps.sliding")
        return self._checked(Windows(self.node, window.over(*window_time(self.node, window.time))))

    def top(
        self,
        n: int,
        by: object,
        *,
        keys: Sequence[object] = (),
        per: str | Usual | None = Usual.TIME,
        number: str | None = None,
    ) -> Stream:
        """Of the rows with equal keys and equal `per` the first `n`, ordered by columns or by `ps.desc(...)` of them.
        `per` is a time, usually `window_start` (None: all rows, known when the stream has ended). `number` names a
        column for the place of each row, from 1."""
        time = chosen_period(self.node, per, "a top-n")
        return self._checked(top_node(self.node, n, by, keys, time, number))

    def keep_first(self, *keys: object, per: str | Usual | None = Usual.TIME) -> Stream:
        """The earliest row of each key in each window, or in all (`per=None`)."""
        by = asc(event_time(self.node, "keep_first"))
        time = window_of(self.node, per, "keep_first")
        return self._checked(top_node(self.node, 1, by, keys, time, what="keep_first"))

    def keep_last(self, *keys: object, per: str | Usual | None = Usual.TIME) -> Stream:
        """The latest row of each key in each window, or in all (`per=None`)."""
        by = desc(event_time(self.node, "keep_last"))
        time = window_of(self.node, per, "keep_last")
        return self._checked(top_node(self.node, 1, by, keys, time, what="keep_last"))

    def join(
        self,
        other: Stream,
        on: object,
        *,
        within: Within,
        kind: str = "inner",
        where: object | None = None,
        times: tuple[str | None, str | None] | None = None,
        prefix: str = "right_",
    ) -> Stream:
        """Pairs of rows with equal keys whose times are near. `on` is a column, a pair of a left and a right one, or a
        list of these. `within` is how far the times may be apart: `"5s"` either way; `("1s", "5s")` for at most 1 s
        before and 5 s after this stream's time; `"window"` for rows of the same window; None for streams that end.
        `kind`: inner, left, right, full, semi or anti. `where` is a further condition. `times` chooses other times than
        the usual ones. Columns of `other` get the prefix where this stream has the same name."""
        names = prefixed_names(self.node, other.node, prefix)
        inputs = (self.node, other.node)
        return self._checked(join_node(inputs, on=on, within=within, names=names, kind=kind, where=where, times=times))

    def theta_join(
        self,
        other: Stream,
        condition: object,
        *,
        within: Within = None,
        last_rows: int | tuple[int, int] | None = None,
        times: tuple[str | None, str | None] | None = None,
        prefix: str = "right_",
    ) -> Stream:
        """Pairs of rows for which any condition holds, over their names in the result. `within` as for `join`; or
        `last_rows`: each row with the last n rows of the other stream before it, both straight from their sources."""
        if (within is None) == (last_rows is None):
            raise QueryError(
                "a theta join needs either a span of time or a number of rows",
                hint='write within="5s", or last_rows=100',
            )
        names = prefixed_names(self.node, other.node, prefix)
        last = (last_rows, last_rows) if isinstance(last_rows, int) else last_rows
        inputs = (self.node, other.node)
        return self._checked(
            join_node(inputs, on=[], within=within, names=names, where=condition, times=times, last_rows=last)
        )

    def in_order(self, *, by: str | Sequence[str] = (), time: str | None = None) -> Stream:
        """The same rows, held back and let through in order of time. With `by`, a column or several, rows with equal
        values of these are in order among themselves: then not all have to pass through one site."""
        return self._checked(in_order_node(self.node, by, time))

    def group_by(self, *keys: object, **computed: object) -> Grouped:
        """Groups by columns, expressions or SQL text; without keys, all rows are one group."""
        return Grouped(self.node, items_of(keys, computed.items(), columns_of_node(self.node), "group_by"), self.wide)

    def window(self, window: WindowSpec | SessionSpec | RowWindow) -> Windowed:
        """Windows over all rows as one group."""
        return self.group_by().window(window)

    @property
    def to(self) -> Destinations:
        """Where the rows go: `.to.files(...)`, `.to.memory()`, `.to.callback(...)`, `.to.terminal()`."""
        return Destinations(self.node)

    def explain(self) -> str:
        return self.to.memory().explain()

    def _checked(self, node: Node) -> Stream:
        return Stream(checked(node))


@dataclass(frozen=True)
class Grouped:
    """Rows in groups. `wide` has columns that the stream does not show but that a window may go by."""

    node: Node
    keys: tuple[Named, ...]
    wide: Node | None = None

    def window(self, window: WindowSpec | SessionSpec | RowWindow) -> Windowed:
        """Windows over the stream's time: `tumbling("10s")`, `sliding("1m", every="10s")`, `session("5m")`; or over
        rows: `rows(100, every=10)`."""
        if isinstance(window, RowWindow):
            return Windowed(self.node, self.keys, window)
        node = self._with_time(window.time)
        return Windowed(node, self.keys, window.over(*window_time(node, window.time)))

    def at(self, *times: str) -> Windowed:
        """Rows with equal times, without a window: `.at("ts")`, or both times of a join, `.at("ts", "right_ts")`."""
        keys = [key.name for key in self.keys]
        if not times or len({*times, *keys}) < len(times) + len(keys):
            raise QueryError(
                "`at` needs times that are different, and no keys",
                detail=f"the times are {list(times)}, the keys {keys}",
                hint='write it as in group_by("k").at("ts"), with the times in `at` alone',
            )
        chosen = tuple(chosen_time(self.node, time, "a group") for time in times)
        return Windowed(self.node, self.keys, Moments(chosen))

    def agg(self, *plain: object, **named: object) -> Stream:
        raise QueryError(
            "a continuous aggregate needs a window: without one its result would never be complete",
            hint='write .group_by(...).window(ps.tumbling("10s")).agg(...), or .at("ts") for rows of equal time',
        )

    def _with_time(self, time: str | None) -> Node:
        hidden = self.wide is not None and time not in times_of(self.node) and time in times_of(self.wide)
        return self.wide if hidden and self.wide is not None else self.node


@dataclass(frozen=True)
class Windowed:
    node: Node
    keys: tuple[Named, ...]
    kind: Window | Session | RowWindow | Moments

    def agg(self, *plain: object, **named: object) -> Stream:
        """One row per group and window: the keys, `window_start` and the aggregates; `window_end` can be selected, and
        is shown of sessions. Of equal times, the times stand in the place of the window. An aggregate is one of
        `ps.count()` and the others, or SQL text: `agg("sum(qty) AS total", n=ps.count(), most="max(qty)")`."""
        columns = columns_of_node(self.node)
        unnamed = [aggregation_of(value, columns) for value in plain]
        aggregates = (*unnamed, *(aggregation_of(value, columns, name) for name, value in named.items()))
        node = checked(Aggregate(self.node, self.keys, self.kind, aggregates))
        shown = (*(k.name for k in self.keys), *self._shown_borders(), *(a.name for a in aggregates))
        return Stream(Project(node, tuple(Named(n, Column(n)) for n in shown)), wide=node)

    def _shown_borders(self) -> tuple[str, ...]:
        match self.kind:
            case Moments(times):
                return times
            case Session():
                return WINDOW_COLUMNS  # of a session, the end is the border that progresses
            case _:
                return (WINDOW_START,)


def join_all(
    streams: Sequence[Stream],
    on: object,
    *,
    within: Within,
    where: object | None = None,
    times: Sequence[str | None] | None = None,
) -> Stream:
    """Combinations of one row of each stream with equal keys, as one operator. `within` is how far the time of every
    later stream may be from that of the first; a column name that has been used before gets a number: `k`, `k_2`."""
    if len(streams) < 2:
        raise QueryError(
            "a join needs at least two streams",
            detail=f"it is given {len(streams)}",
            hint='list them, as in ps.join_all([a, b, c], on="k", within="5s")',
        )
    nodes = [stream.node for stream in streams]
    chosen = None if times is None else tuple(times)
    node = join_node(nodes, on=on, within=within, names=numbered_names(nodes), where=where, times=chosen)
    node_schema(node)
    return Stream(node)
