"""Streams: queries under construction. Every method returns a new stream; nothing runs before `start`."""

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
from penstock.operators.window.kinds import EqualTimes, RowWindow, Session
from penstock.operators.window.windows import Window
from penstock.plan.compile.subqueries import node_schema
from penstock.plan.logical import Aggregate, AssignWindows, Distinct, Filter, Node, Project, SplitRows
from penstock.plan.schema import WINDOW_COLUMNS, WINDOW_START, columns_of_node, times_of


@dataclass(frozen=True)
class Stream:
    """A stream of rows. `wide`, if set, has more columns than the stream shows; `select` and `where` may use them."""

    node: Node
    wide: Node | None = None

    @property
    def schema(self) -> pa.Schema:
        """Return the Arrow schema of the stream."""
        return node_schema(self.node)

    @property
    def times(self) -> tuple[str, ...]:
        """Return the time columns of the stream, those that punctuation bounds, so that windows and joins can use them;
        the default one first."""
        return times_of(self.node)

    def where(self, condition: object) -> Stream:
        """Keep the rows for which `condition` holds: `where(col("qty") > 1)`, or as SQL text, `where("qty > 1")`.
        Directly after an aggregate this is HAVING, and may also use `window_end`."""
        below = self.wide or self.node
        kept = self._checked(Filter(below, expression_of(condition, columns_of_node(below), "where(...)")))
        match self.node:
            case Project(columns=shown) if self.wide is not None:
                return Stream(Project(kept.node, shown), wide=kept.node)
        return kept

    def split(self, *conditions: object) -> tuple[Stream, ...]:
        """Split the stream into one stream per condition and one for the rest: each row goes to the first condition
        that holds, or to the last stream."""
        columns = columns_of_node(self.node)
        predicates = tuple(expression_of(condition, columns, "split(...)") for condition in conditions)
        return tuple(self._checked(SplitRows(self.node, predicates, n)) for n in range(len(predicates) + 1))

    def select(self, *columns: object, **computed: object) -> Stream:
        """Select columns by name, as expressions or as SQL text (`"a + b AS c"`); a keyword names a computed column. A
        string that is a column name is that column; a text constant is `ps.lit("...")`."""
        below = self.wide or self.node
        return self._checked(Project(below, items_of(columns, computed.items(), columns_of_node(below), "select")))

    def with_columns(self, **computed: object) -> Stream:
        """Add computed columns, as expressions or as SQL text (`total="price * amount"`); one with the name of an
        existing column replaces it."""
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
        """Apply a Python function to batches of rows, from Arrow table to Arrow table; its result must not depend on
        how rows are divided into batches. `schema` is that of the result, as SQL types by column name or as an Arrow
        schema. `time` names the time column of the result, whose values must not be earlier than before (default: the
        current time column, if the schema has it; None: the result has no time). `name` identifies the function in a
        checkpoint (default: its qualified name)."""
        return self._checked(map_node(self.node, function, schema, time, name))

    def union(self, *others: Stream) -> Stream:
        """Append the rows of the other streams. Columns are matched by position and named as in this stream."""
        return self._checked(union_node([self.node, *(other.node for other in others)]))

    def distinct(self, *, time: str | None = None) -> Stream:
        """Remove duplicates: rows that are equal in all columns. A row is remembered until the low-water mark has
        passed its time."""
        return self._checked(Distinct(self.node, chosen_time(self.node, time, "distinct")))

    def windowed(self, window: WindowSpec) -> Stream:
        """Assign each row to its windows: one output row per window, with the columns `window_start` and `window_end`
        added."""
        if not isinstance(window, WindowSpec):
            raise QueryError("rows can only be assigned to windows of time", hint="use ps.tumbling or ps.sliding")
        return self._checked(AssignWindows(self.node, window.over(*window_time(self.node, window.time))))

    def top(
        self,
        n: int,
        by: object,
        *,
        keys: Sequence[object] = (),
        per: str | Usual | None = Usual.TIME,
        number: str | None = None,
    ) -> Stream:
        """Keep the first `n` rows of each combination of `keys` and `per`, ordered by `by`: columns, or `ps.desc(...)`
        of them. `per` is a time column, by default `window_start`, or the stream's time if it has no windows (None: all
        rows, output when the stream ends). `number` names a column for the rank of each row, from 1."""
        time = chosen_period(self.node, per, "a top-n")
        return self._checked(top_node(self.node, n, by, keys, time, number))

    def keep_first(self, *keys: object, per: str | Usual | None = Usual.TIME) -> Stream:
        """Keep the earliest row of each key in each window, or of the whole stream (`per=None`)."""
        by = asc(event_time(self.node, "keep_first"))
        time = window_of(self.node, per, "keep_first")
        return self._checked(top_node(self.node, 1, by, keys, time, what="keep_first"))

    def keep_last(self, *keys: object, per: str | Usual | None = Usual.TIME) -> Stream:
        """Keep the latest row of each key in each window, or of the whole stream (`per=None`)."""
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
        """Join two streams: pairs of rows with equal keys and times that are close. `on` is a column, a pair of a left
        and a right column, or a list of these. `within` bounds the difference of the times: `"5s"` in both directions;
        `("1s", "5s")` for at most 1 s before and 5 s after this stream's time; `"window"` for rows of the same window;
        None for streams that end. `kind`: inner, left, right, full, semi or anti. `where` is a further condition.
        `times` chooses other time columns than the default ones. A column of `other` gets `prefix` if this stream has
        its name."""
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
        """Join two streams on any condition, written with the column names of the result. `within` as for `join`; or
        `last_rows=n`: each row with the last n rows of the other stream before it, both directly from their sources."""
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
        """Output the rows in order of time, held back until no earlier row can arrive. With `by`, one column or
        several, order only rows with equal values of these columns; then not all rows have to pass through one site."""
        return self._checked(in_order_node(self.node, by, time))

    def group_by(self, *keys: object, **computed: object) -> Grouped:
        """Group rows by columns, expressions or SQL text; without keys all rows are one group."""
        return Grouped(self.node, items_of(keys, computed.items(), columns_of_node(self.node), "group_by"), self.wide)

    def window(self, window: WindowSpec | SessionSpec | RowWindow) -> Windowed:
        """Assign all rows, as one group, to windows."""
        return self.group_by().window(window)

    @property
    def to(self) -> Destinations:
        """Choose the sink: `.to.files(...)`, `.to.memory()`, `.to.callback(...)`, `.to.terminal()`."""
        return Destinations(self.node)

    def explain(self) -> str:
        """Return the plan of the stream as text."""
        return self.to.memory().explain()

    def _checked(self, node: Node) -> Stream:
        return Stream(checked(node))


@dataclass(frozen=True)
class Grouped:
    """Rows in groups. `wide`, if set, has time columns that the stream does not show; a window may use them."""

    node: Node
    keys: tuple[Named, ...]
    wide: Node | None = None

    def window(self, window: WindowSpec | SessionSpec | RowWindow) -> Windowed:
        """Assign rows to windows over the stream's time: `tumbling("10s")`, `sliding("1m", every="10s")`,
        `session("5m")`; or over a number of rows: `rows(100, every=10)`."""
        if isinstance(window, RowWindow):
            return Windowed(self.node, self.keys, window)
        node = self._with_time(window.time)
        return Windowed(node, self.keys, window.over(*window_time(node, window.time)))

    def at(self, *times: str) -> Windowed:
        """Group rows with equal times instead of windows: `.at("ts")`; after a join, both times: `.at("ts",
        "right_ts")`."""
        keys = [key.name for key in self.keys]
        if not times or len({*times, *keys}) < len(times) + len(keys):
            raise QueryError(
                "`at` needs times that are different, and no keys",
                detail=f"the times are {list(times)}, the keys {keys}",
                hint='write it as in group_by("k").at("ts"), with the times in `at` alone',
            )
        chosen = tuple(chosen_time(self.node, time, "a group") for time in times)
        return Windowed(self.node, self.keys, EqualTimes(chosen))

    def agg(self, *plain: object, **named: object) -> Stream:
        """Raise QueryError: an aggregate needs `window` or `at` first."""
        raise QueryError(
            "a continuous aggregate needs a window: without one its result would never be complete",
            hint='write .group_by(...).window(ps.tumbling("10s")).agg(...), or .at("ts") for rows of equal time',
        )

    def _with_time(self, time: str | None) -> Node:
        """Return the node that has this time column: the wide one if only that has it."""
        hidden = self.wide is not None and time not in times_of(self.node) and time in times_of(self.wide)
        return self.wide if hidden and self.wide is not None else self.node


@dataclass(frozen=True)
class Windowed:
    """Rows in groups and windows, ready to be aggregated."""

    node: Node
    keys: tuple[Named, ...]
    kind: Window | Session | RowWindow | EqualTimes

    def agg(self, *plain: object, **named: object) -> Stream:
        """Aggregate: one row per group and window, with the keys, `window_start` and the aggregates. `window_end` can
        be selected, and is shown for sessions. After `at`, the times stand in place of the window. An aggregate is
        `ps.count()` or a similar function, or SQL text: `agg("sum(qty) AS total", n=ps.count(), most="max(qty)")`."""
        columns = columns_of_node(self.node)
        unnamed = [aggregation_of(value, columns) for value in plain]
        aggregates = (*unnamed, *(aggregation_of(value, columns, name) for name, value in named.items()))
        node = checked(Aggregate(self.node, self.keys, self.kind, aggregates))
        shown = (*(k.name for k in self.keys), *self._shown_borders(), *(a.name for a in aggregates))
        return Stream(Project(node, tuple(Named(n, Column(n)) for n in shown)), wide=node)

    def _shown_borders(self) -> tuple[str, ...]:
        """Return the columns that identify the window in the result."""
        match self.kind:
            case EqualTimes(times):
                return times
            case Session():
                return WINDOW_COLUMNS  # the progressing attribute of a session is its end
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
    """Join several streams as one operator: combinations of one row of each stream with equal keys. `within` bounds how
    far the time of each later stream may be from that of the first. A repeated column name is numbered: `k`, `k_2`."""
    if len(streams) < 2:
        raise QueryError(
            "a join needs at least two streams",
            detail=f"number of streams: {len(streams)}",
            hint='list them, as in ps.join_all([a, b, c], on="k", within="5s")',
        )
    nodes = [stream.node for stream in streams]
    chosen = None if times is None else tuple(times)
    node = join_node(nodes, on=on, within=within, names=numbered_names(nodes), where=where, times=chosen)
    node_schema(node)
    return Stream(node)
