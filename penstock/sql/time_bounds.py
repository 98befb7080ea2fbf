"""Conditions that bound how far two times lie apart: `b.ts BETWEEN a.ts - INTERVAL '5' SECOND AND a.ts`, and the like.

A comparison is brought to the form `left - right + constant op 0`, whatever side its parts are written on.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass
from datetime import timedelta

from penstock.expr.tree import Call, Column, Expr, Literal, substitute
from penstock.sql.interval import microseconds

_MIRRORED = {"<=": ">=", "<": ">", ">=": "<=", ">": "<", "=": "="}
_UNITS = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
_SECOND = 1_000_000


@dataclass(frozen=True)
class Bound:
    """least <= right - left <= most; None where there is no such bound. `conjunct` is what says so; None where
    something else that is checked anyway implies it."""

    left: str
    right: str
    least: int | None
    most: int | None
    conjunct: Expr | None

    @property
    def turned(self) -> Bound:
        """The same, seen from the other side."""
        least, most = (None if end is None else -end for end in (self.most, self.least))
        return Bound(self.right, self.left, least, most, self.conjunct)


@dataclass(frozen=True)
class Times:
    """The progressing attributes of the inputs of a join, and whether they are of type TIMESTAMP."""

    names: Set[str]
    is_timestamp: bool


@dataclass(frozen=True)
class _Sum:
    """Times added and subtracted, and a constant."""

    plus: tuple[str, ...]
    minus: tuple[str, ...]
    constant: int

    def __sub__(self, other: _Sum) -> _Sum:
        return _Sum(self.plus + other.minus, self.minus + other.plus, self.constant - other.constant)


_NOTHING = _Sum((), (), 0)


def comparisons(conjunct: Expr) -> tuple[Expr, ...]:
    """A BETWEEN as its two comparisons."""
    match conjunct:
        case Call("between", (operand, low, high)):
            return Call(">=", (operand, low)), Call("<=", (operand, high))
    return (conjunct,)


def bound_of(conjunct: Expr, times: Times) -> Bound | None:
    """What a comparison says about two times; None where it says something else."""
    match conjunct:
        case Call(function, (left, right)) if function in _MIRRORED:
            terms = _sum(left, times), _sum(right, times)
            if terms[0] is not None and terms[1] is not None:
                return _bound(function, terms[0] - terms[1], conjunct)
    return None


def _bound(function: str, difference: _Sum, conjunct: Expr) -> Bound | None:
    """`plus - minus + constant op 0`, with one time on each side, bounds `minus - plus` by the constant."""
    if len(difference.plus) != 1 or len(difference.minus) != 1:
        return None
    left, right, constant = difference.plus[0], difference.minus[0], difference.constant
    match function:
        case "<=":
            return Bound(left, right, constant, None, conjunct)
        case "<":
            return Bound(left, right, constant + 1, None, conjunct)
        case ">=":
            return Bound(left, right, None, constant, conjunct)
        case ">":
            return Bound(left, right, None, constant - 1, conjunct)
    return Bound(left, right, constant, constant, conjunct)


def _sum(expression: Expr, times: Times) -> _Sum | None:
    match expression:
        case Column(name):
            return _Sum((name,), (), 0) if name in times.names else None
        case Call("-", (operand,)):
            inner = _sum(operand, times)
            return None if inner is None else _NOTHING - inner
        case Call("+" | "-" as function, (left, right)):
            return _added(function, _sum(left, times), _sum(right, times))
    constant = _constant(expression, times.is_timestamp)
    return None if constant is None else _Sum((), (), constant)


def _added(function: str, left: _Sum | None, right: _Sum | None) -> _Sum | None:
    if left is None or right is None:
        return None
    return left - right if function == "-" else left - (_NOTHING - right)


def _constant(expression: Expr, is_timestamp: bool) -> int | None:
    match expression:
        case Literal(timedelta() as span) if is_timestamp:
            return microseconds(span)
        case Literal(int() as number) if not is_timestamp and not isinstance(number, bool):
            return number
        case Call("*", (Literal(timedelta() as span), Literal(int() as factor))) if is_timestamp:
            return microseconds(span) * factor
        case Call("*", (Literal(int() as factor), Literal(timedelta() as span))) if is_timestamp:
            return microseconds(span) * factor
    return None


def bucket_bound(left: Expr, right: Expr, times: Times) -> Bound | None:
    """What follows from times being in one bucket, as in `a.ts // 10 = b.ts // 10`: they are not far apart."""
    first, second = _bucket(left, times), _bucket(right, times)
    if first is None or second is None:
        return None
    (a, width), (b, _) = first, second
    if repr(substitute(left, {a: Column(b)})) != repr(right):
        return None
    return Bound(a, b, -width, width, None)


def _bucket(expression: Expr, times: Times) -> tuple[str, int] | None:
    """A time that is rounded, and how far apart two times of a bucket can be. `//` rounds towards zero, so that the
    bucket around zero is nearly twice as large as the others."""
    match expression:
        case Call("//", (Column(name), Literal(int() as size))) if size and not times.is_timestamp:
            found = name, 2 * abs(size) - 2
        case Call("date_trunc", (Literal(str() as unit), Column(name))) if unit.lower() in _UNITS:
            found = name, _UNITS[unit.lower()] * _SECOND - 1
        case Call("time_bucket", (Literal(timedelta() as size), Column(name))):
            found = name, microseconds(size) - 1
        case _:
            return None
    return found if found[0] in times.names else None


def within(left: str, right: str, sizes: tuple[int, int], is_timestamp: bool) -> Iterator[Expr]:
    """What windows on the two inputs of a join say: `left - sizes[1] < right < left + sizes[0]`."""

    def span(size: int) -> Literal:
        return Literal(timedelta(microseconds=size) if is_timestamp else size)

    yield Call(">", (Column(right), Call("-", (Column(left), span(sizes[1])))))
    yield Call("<", (Column(right), Call("+", (Column(left), span(sizes[0])))))
