"""Random operators with one input: filters, projections, functions, distinct, top-n, order."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

import penstock as ps
from penstock.api.columns import ColumnExpr
from penstock.plan.schema import WINDOW_COLUMNS
from tests.support.queries.data import SECOND, random_window
from tests.support.queries.draft import Draft, Drawing


def random_condition(drawing: Drawing, draft: Draft, prefer: str | None = None) -> ColumnExpr:
    """Draw a condition on an exact column; null for some rows."""
    random = drawing.random
    name = prefer or random.choice(draft.exact)
    column, type_ = ps.col(name), draft.schema.field(name).type
    if random.random() < 0.2:
        return random.choice([column.is_null(), column.is_not_null()])
    if pa.types.is_integer(type_):
        return random.choice([column > 0, column < 3, column % 2 == 0, column != 1])
    if pa.types.is_string(type_):
        return random.choice([column.like("a%"), column > "b", column != ""])
    if pa.types.is_floating(type_):
        return random.choice([column > 0.5, column == 0.0, column < 1.5])
    return column.is_not_null()


def where(drawing: Drawing, draft: Draft) -> Draft | None:
    """Draw a filter."""
    return draft.then(draft.stream.where(random_condition(drawing, draft))) if draft.exact else None


def split(drawing: Drawing, draft: Draft) -> Draft | None:
    """Draw a split, and take one of its outputs or a union of some."""
    if not draft.exact:
        return None
    outputs = draft.stream.split(*(random_condition(drawing, draft) for _ in range(drawing.random.randint(1, 3))))
    first, *others = drawing.random.sample(outputs, drawing.random.randint(1, len(outputs)))
    return draft.then(first.union(*others) if others else first)


def select(drawing: Drawing, draft: Draft) -> Draft:
    """Draw a projection: some columns, some renamed, one computed. Times are mostly kept."""
    random = drawing.random
    kept = [n for n in draft.schema.names if random.random() < (0.9 if n in draft.times else 0.6)]
    kept = kept or draft.schema.names[:1]
    renamed = {f"{n}_{len(n)}": n for n in kept if random.random() < 0.2 and f"{n}_{len(n)}" not in kept}
    plain = [n for n in kept if n not in renamed.values()]
    computed = {"made": _computed(drawing, draft)} if draft.integers and "made" not in draft.schema.names else {}
    stream = draft.stream.select(*plain, **{new: ps.col(old) for new, old in renamed.items()}, **computed)
    rounded = {n for n in plain if n in draft.rounded} | {new for new, old in renamed.items() if old in draft.rounded}
    return Draft(stream, frozenset(rounded), draft.unit)


def _computed(drawing: Drawing, draft: Draft) -> ColumnExpr:
    """Draw an expression with small values, however often it is nested."""
    column = ps.col(drawing.random.choice(draft.integers))
    return drawing.random.choice([column % 5 + 1, column % 3 * 2, ps.when(column > 1, 1).otherwise(0)])


def twice(rows: pa.Table) -> pa.Table:
    """Return all rows twice."""
    return pa.concat_tables([rows, rows])


def without_nulls_first(rows: pa.Table) -> pa.Table:
    """Return the rows whose first column is not null."""
    return rows.filter(pc.is_valid(rows.column(0)))


def map_batches(drawing: Drawing, draft: Draft) -> Draft:
    """Draw a function over batches."""
    function = drawing.random.choice([twice, without_nulls_first])
    time = draft.times[0] if draft.times else None
    return draft.then(draft.stream.map_batches(function, draft.schema, time=time))


def windowed(drawing: Drawing, draft: Draft) -> Draft | None:
    """Draw an assignment to windows."""
    if draft.unit != SECOND or not draft.times or set(WINDOW_COLUMNS) & set(draft.schema.names):
        return None
    window = random_window(drawing.random, drawing.random.choice(draft.times))
    return draft.then(draft.stream.windowed(window))


def distinct(drawing: Drawing, draft: Draft) -> Draft | None:
    """Draw a distinct, mostly of a few columns, so that some rows are equal."""
    plain = draft.without_rounded()
    if not plain.times:
        return None
    time = drawing.random.choice(plain.times)
    if drawing.random.random() < 0.6:
        others = drawing.some([name for name in plain.exact if name != time], 2)
        plain = plain.then(plain.stream.select(time, *others))
    return plain.then(plain.stream.distinct(time=time))


def top(drawing: Drawing, draft: Draft) -> Draft | None:
    """Draw a top-n."""
    plain, random = draft.without_rounded(), drawing.random
    if not plain.exact:
        return None
    order = [ps.desc(n) if random.random() < 0.5 else ps.asc(n, nulls_first=True) for n in drawing.some(plain.exact, 2)]
    number = "place" if random.random() < 0.4 and "place" not in plain.schema.names else None
    per = random.choice([*plain.times, None])
    stream = plain.stream.top(
        random.choice([1, 2, 5]), order, keys=drawing.some(plain.exact, 2), per=per, number=number
    )
    return plain.then(stream)


def keep_one(drawing: Drawing, draft: Draft) -> Draft | None:
    """Draw the first or last row of each key."""
    plain = draft.without_rounded()
    if not set(plain.times) - set(WINDOW_COLUMNS):
        return None
    keep = drawing.random.choice([plain.stream.keep_first, plain.stream.keep_last])
    return plain.then(keep(*drawing.some(plain.exact, 2), per=drawing.random.choice([*plain.times, None])))


def in_order(drawing: Drawing, draft: Draft) -> Draft | None:
    """Draw an ordering by time."""
    if not draft.times:
        return None
    return draft.then(draft.stream.in_order(time=drawing.random.choice(draft.times)))
