"""Streams to join and unite, their nodes, and short ways to plan queries over them."""

from __future__ import annotations

import pyarrow as pa
from sql_case import FakeConnector, parse, script_error

from penstock.errors import PenstockError
from penstock.expr.tree import Column, Expr, Named
from penstock.operators.bands import Band
from penstock.plan.logical import Join, Node, Project, Source
from penstock.progress.mark import Ordered

STREAMS = """
CREATE SOURCE a (k BIGINT, v DOUBLE, s VARCHAR, ts TIMESTAMP, WATERMARK FOR ts AS ts) WITH (connector = 'files');
CREATE SOURCE b (k BIGINT, w DOUBLE, j INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) WITH (connector = 'files');
CREATE SOURCE c (k INT, j BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts) WITH (connector = 'files');
CREATE SOURCE m (k BIGINT, n BIGINT, WATERMARK FOR n AS n) WITH (connector = 'files');
CREATE SOURCE o (k BIGINT, n BIGINT, WATERMARK FOR n AS n) WITH (connector = 'files');
"""


def _source(name: str, time: str, *columns: tuple[str, pa.DataType]) -> Source:
    return Source(name, pa.schema(columns), time, Ordered(), FakeConnector("files", ()))


_TS = ("ts", pa.timestamp("us"))
A = _source("a", "ts", ("k", pa.int64()), ("v", pa.float64()), ("s", pa.string()), _TS)
B = _source("b", "ts", ("k", pa.int64()), ("w", pa.float64()), ("j", pa.int32()), _TS)
C = _source("c", "ts", ("k", pa.int32()), ("j", pa.int64()), _TS)
M = _source("m", "n", ("k", pa.int64()), ("n", pa.int64()))
O = _source("o", "n", ("k", pa.int64()), ("n", pa.int64()))  # noqa: E741
A_NAMES, B_NAMES = ("k", "v", "s", "ts"), ("b_k", "w", "j", "b_ts")
K = ((Column("k"),), (Column("k"),))


def planned(query: str) -> Node:
    """The plan of the last query of a script that follows the declarations above."""
    return parse(STREAMS + query).queries[-1][1]


def refused(query: str) -> PenstockError:
    return script_error(STREAMS + query)


def joined(query: str) -> Join:
    """The one Join of a query, below a projection or without one."""
    node = planned(query)
    node = node.input if isinstance(node, Project) else node
    assert isinstance(node, Join)
    return node


def equi_join(band: Band, kind: str = "inner", condition: Expr | None = None) -> Join:
    """The join of `a` and `b` on k, by their times."""
    return Join((A, B), kind, K, ("ts", "ts"), (band,), condition, (A_NAMES, B_NAMES))


def columns(*names: str) -> tuple[Named, ...]:
    return tuple(Named(name, Column(name)) for name in names)
