"""Random aggregates over all kinds of windows."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

import penstock as ps
from penstock.api.aggregates import AggregateSpec
from penstock.api.streams import Grouped, Windowed
from penstock.plan.schema import WINDOW_COLUMNS
from tests.support.queries.data import MICROSECOND, random_window
from tests.support.queries.draft import Draft, Drawing

_ROUNDED = (ps.avg, ps.stddev, ps.var_pop, ps.variance, ps.stddev_pop)
_OF_INTEGERS = (ps.sum, *_ROUNDED)
_OF_ANY = (ps.count, ps.min, ps.max, ps.count_distinct, ps.first, ps.last)


def aggregate(drawing: Drawing, draft: Draft) -> Draft | None:
    """Draw a group-by over windows of time, sessions, windows of rows, or equal times."""
    keys = drawing.some([n for n in draft.exact if n not in (*draft.times, *WINDOW_COLUMNS)], 2)
    kinds = list(_groupings(drawing, draft, draft.stream.group_by(*keys)))
    if not kinds:
        return None
    windows, unit = drawing.random.choice(kinds)
    measures = {"n": ps.count()} if "n" not in keys else {}
    rounded = set()
    for number in range(drawing.random.randint(0, 3)):
        name = f"m{number}"
        if name not in (*keys, *draft.times):
            measures[name], is_rounded = _measure(drawing, draft)
            rounded |= {name} if is_rounded else set()
    if not measures:
        return None
    return Draft(windows.agg(**measures), frozenset(rounded), unit)


def _groupings(drawing: Drawing, draft: Draft, grouped: Grouped) -> Iterator[tuple[Windowed, int]]:
    """Yield the possible windows, each with the unit of its result."""
    random = drawing.random
    for _ in range(2 if draft.rows_of_source else 0):
        yield grouped.window(ps.rows(random.choice([1, 7, 50]), every=random.choice([1, 3, 10, 50]))), 1
    if draft.times and not set(draft.times) & {key.name for key in grouped.keys}:
        yield grouped.at(*random.sample(draft.times, random.randint(1, len(draft.times)))), draft.unit
    if draft.times:
        time = random.choice(draft.times)
        yield grouped.window(random_window(random, time, draft.unit)), draft.unit
        yield grouped.window(random_window(random, time, draft.unit)), draft.unit
        gap = random.choice([1, 3, 10]) * max(1, draft.unit // 2)
        yield grouped.window(ps.session(gap * MICROSECOND, time=time)), draft.unit


def _measure(drawing: Drawing, draft: Draft) -> tuple[AggregateSpec, bool]:
    """Draw an aggregate; return it and whether its result is rounded."""
    random = drawing.random
    if draft.integers and random.random() < 0.5:
        function = random.choice(_OF_INTEGERS)
        return function(ps.col(random.choice(draft.integers)) % 1000), function in _ROUNDED
    names = draft.of_kind(lambda t: not pa.types.is_null(t))
    return (random.choice(_OF_ANY)(random.choice(names)), False) if names else (ps.count(), False)
