"""Conditions of a join in SQL, over the column names of its result."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.expr.text import quoted
from penstock.expr.tree import Call, Column, Expr
from penstock.expr.walk import substitute
from penstock.operators.bands import Band
from penstock.plan.logical import Join
from penstock.plan.schema import columns_of_node, times_of
from tests.support.trials.sql.words import NoSql, has_timestamps, span, words


def conditions_of(node: Join) -> Iterator[str]:
    """Yield the conditions: equal keys, bounds on times, and any further condition. Only joins over the last rows can
    have no bounds."""
    if node.last_rows is None and not node.bands:
        raise NoSql("there is no SQL for a join without bounds on time")
    if node.last_rows is not None and node.times != tuple(times_of(below)[0] for below in node.inputs):
        raise NoSql("there is no SQL for a join over the last rows by another time than the usual one")
    yield from _equalities(node)
    for band in node.bands:
        yield from _bounds(node, band)
    if node.condition is not None:
        yield f"({words(node.condition)})"


def _equalities(node: Join) -> Iterator[str]:
    for i in range(1, len(node.inputs)):
        for first, other in zip(node.keys[0], node.keys[i], strict=True):
            yield words(Call("=", (_outside(node, 0, first), _outside(node, i, other))))


def _outside(node: Join, i: int, expression: Expr) -> Expr:
    """Return an expression over input i with the column names of the result."""
    names = zip(columns_of_node(node.inputs[i]), node.names[i], strict=True)
    return substitute(expression, {own: Column(name) for own, name in names})


def _time(node: Join, i: int) -> str:
    return node.names[i][columns_of_node(node.inputs[i]).index(node.times[i])]


def _bounds(node: Join, band: Band) -> Iterator[str]:
    left, right = (quoted(_time(node, i)) for i in (band.left, band.right))
    is_interval = has_timestamps(node.inputs[band.left], node.times[band.left])
    least = None if band.before is None else _moved(left, -band.before, is_interval)
    most = None if band.after is None else _moved(left, band.after, is_interval)
    match least, most:
        case str(), str():
            yield f"{right} BETWEEN {least} AND {most}"
        case str(), None:
            yield f"{right} >= {least}"
        case None, str():
            yield f"{right} <= {most}"


def _moved(time: str, by: int, is_interval: bool) -> str:
    return f"{time} {'-' if by < 0 else '+'} {span(abs(by), is_interval)}" if by else time
