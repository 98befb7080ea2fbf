"""One query for each operator and each kind of join, over two streams: for tests that iterate over all of them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import penstock as ps
from penstock.api.streams import Stream
from penstock.plan.logical import JOINS
from tests.support.queries.data import MICROSECOND

OperatorQuery = Callable[[Stream, Stream], Stream]


def operator_queries(small: int) -> dict[str, OperatorQuery]:
    """Return queries by name, over streams with the columns `ts`, `k` and `i` that span about 60 times `small`."""
    unit = small * MICROSECOND
    return {**_joins(unit), **_groups(unit), **_rows(unit), **_twice(unit)}


def _joins(unit: timedelta) -> dict[str, OperatorQuery]:
    band = (2 * unit, 4 * unit)
    less, sum_is_odd = ps.col("i") < ps.col("right_i"), (ps.col("i") + ps.col("right_i")) % 2 != 0
    return {
        **{f"{kind} join": _join_of(kind, unit) for kind in JOINS},
        "left join with a condition": lambda a, b: a.join(b, "k", within=band, kind="left", where=less),
        "full join with a condition": lambda a, b: a.join(b, "k", within=band, kind="full", where=sum_is_odd),
        "anti join with a condition": lambda a, b: a.join(b, "k", within=band, kind="anti", where=less),
        "three-way join": lambda a, b: ps.join_all([a, b, a.where(ps.col("i") > 0)], "k", within=2 * unit),
        "theta join": lambda a, b: a.theta_join(b, less, within=(unit, 2 * unit)),
        "theta join over rows": lambda a, b: a.theta_join(b, less, last_rows=(3, 5)),
    }


def _join_of(kind: str, unit: timedelta) -> OperatorQuery:
    return lambda a, b: a.join(b, "k", within=(2 * unit, 4 * unit), kind=kind)


def _groups(unit: timedelta) -> dict[str, OperatorQuery]:
    measures = {"n": ps.count(), "total": ps.sum("i")}
    windows = ps.sliding(10 * unit, every=4 * unit)
    return {
        "windows": lambda a, b: a.group_by("k").window(windows).agg(**measures),
        "sessions": lambda a, b: a.group_by("k").window(ps.session(2 * unit)).agg(**measures),
        "windows of rows": lambda a, b: a.group_by("k").window(ps.rows(10, every=3)).agg(**measures),
        "moments": lambda a, b: a.group_by("k").at("ts").agg(**measures),
        "moments over a join": lambda a, b: (
            a.join(b, "k", within=(0, 3 * unit)).group_by("k").at("ts", "right_ts").agg(**measures)
        ),
        "union": lambda a, b: a.union(b).group_by("k").window(windows).agg(**measures),
    }


def _rows(unit: timedelta) -> dict[str, OperatorQuery]:
    windows = ps.tumbling(10 * unit)
    return {
        "distinct": lambda a, b: a.select("ts", "k").distinct(),
        "top of windows": lambda a, b: a.windowed(windows).top(2, ps.desc("i"), keys=["k"], number="place"),
        "top of all": lambda a, b: a.top(3, [ps.asc("i"), "ts"], keys=["k"], per=None),
        "in order": lambda a, b: a.union(b).in_order(),
    }


def _twice(unit: timedelta) -> dict[str, OperatorQuery]:
    """Return queries that read the same stream twice."""
    windows = ps.tumbling(5 * unit)
    return {
        "self-join": lambda a, b: a.join(a, "k", within=unit, kind="left"),
        "self-union": lambda a, b: a.union(a).group_by("k").window(windows).agg(n=ps.count()),
    }
