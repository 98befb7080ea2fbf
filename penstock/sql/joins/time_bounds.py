"""Conditions that bound the distance of two times, such as `b.ts BETWEEN a.ts - INTERVAL '5' SECOND AND a.ts`.

A comparison is brought to the form `left - right + constant op 0`, whichever side its terms are on. The bounds of a
join determine the time column of each input and the bands between these times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import combinations

from penstock.expr.comparisons import MIRRORED
from penstock.expr.tree import Call, Column, Expr, Literal
from penstock.expr.walk import substitute
from penstock.operators.bands import Band, leads
from penstock.operators.window.windows import Window
from penstock.plan.logical import Aggregate, AssignWindows, Distinct, Filter, Node, Project, TopN
from penstock.plan.schema import WINDOW_COLUMNS
from penstock.sql.joins.unit import Unit, owner
from penstock.units import UNITS, microseconds

_TRUNCATED = ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK")  # units of date_trunc
_Pair = tuple[str, str]  # time columns of two inputs, in the order of the inputs
_Side = tuple[Unit, str, str]  # an input, the time column it is joined by, and another time column of it


@dataclass(frozen=True)
class Bound:
    """The bound least <= right - left <= most, where None means unbounded.

    `conjunct` is the condition that states it, None if another condition that is checked anyway implies it.
    """

    left: str
    right: str
    least: int | None
    most: int | None
    conjunct: Expr | None

    @property
    def turned(self) -> Bound:
        """Return the same bound with left and right exchanged."""
        least, most = (None if end is None else -end for end in (self.most, self.least))
        return Bound(self.right, self.left, least, most, self.conjunct)


@dataclass(frozen=True)
class JoinTimes:
    """The progressing attributes of the inputs of a join, and whether all inputs have TIMESTAMP times."""

    names: Set[str]
    is_timestamp: bool


@dataclass(frozen=True)
class _Sum:
    """A sum of times, minus other times, plus a constant."""

    plus: tuple[str, ...]
    minus: tuple[str, ...]
    constant: int

    def __sub__(self, other: _Sum) -> _Sum:
        return _Sum(self.plus + other.minus, self.minus + other.plus, self.constant - other.constant)


_NOTHING = _Sum((), (), 0)


def bound_of(conjunct: Expr, times: JoinTimes) -> Bound | None:
    """Return the bound on two times that a comparison states; None if it states anything else."""
    match conjunct:
        case Call(function, (left, right)) if function in MIRRORED:
            terms = _sum(left, times), _sum(right, times)
            if terms[0] is not None and terms[1] is not None:
                return _bound(function, terms[0] - terms[1], conjunct)
    return None


def _bound(function: str, difference: _Sum, conjunct: Expr) -> Bound | None:
    """Return the bound on `minus - plus` of `plus - minus + constant op 0`; None unless each side has one time."""
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


def _sum(expression: Expr, times: JoinTimes) -> _Sum | None:
    """Return the expression as a sum of times and constants; None if it is anything else."""
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
    """Return a constant in units of the times: microseconds for TIMESTAMP; None if it is not one."""
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


def bucket_bound(left: Expr, right: Expr, times: JoinTimes) -> Bound | None:
    """Return the bound that follows if both times are in one bucket, as in `a.ts // 10 = b.ts // 10`; None
    otherwise."""
    first, second = _bucket(left, times), _bucket(right, times)
    if first is None or second is None:
        return None
    (a, width), (b, _) = first, second
    if repr(substitute(left, {a: Column(b)})) != repr(right):
        return None
    return Bound(a, b, -width, width, None)


def _bucket(expression: Expr, times: JoinTimes) -> tuple[str, int] | None:
    """Return the time that the expression rounds, and the greatest distance of two times in one bucket; or None.

    `//` rounds towards zero, so the bucket around zero is nearly twice as wide as the others.
    """
    match expression:
        case Call("//", (Column(name), Literal(int() as size))) if size and not times.is_timestamp:
            found = name, 2 * abs(size) - 2
        case Call("date_trunc", (Literal(str() as unit), Column(name))) if unit.upper() in _TRUNCATED:
            found = name, UNITS[unit.upper()] - 1
        case Call("time_bucket", (Literal(timedelta() as size), Column(name))):
            found = name, microseconds(size) - 1
        case _:
            return None
    return found if found[0] in times.names else None


def within(left: str, right: str, sizes: tuple[int, int], is_timestamp: bool) -> Iterator[Expr]:
    """Yield the conditions of windows on two inputs of a join: `left - sizes[1] < right < left + sizes[0]`."""

    def span(size: int) -> Literal:
        return Literal(timedelta(microseconds=size) if is_timestamp else size)

    yield Call(">", (Column(right), Call("-", (Column(left), span(sizes[1])))))
    yield Call("<", (Column(right), Call("+", (Column(left), span(sizes[0])))))


@dataclass(frozen=True)
class Timing:
    """The time column of each input, the bands between these times, and the time conditions that are not bands."""

    times: tuple[str, ...]
    bands: tuple[Band, ...]
    rest: tuple[Expr, ...]

    @property
    def is_equal(self) -> bool:
        """Return whether the join has two inputs whose times must be equal."""
        tied = {index for band in self.bands if band.before == band.after == 0 for index in (band.left, band.right)}
        return len(tied) == len(self.times) and len(self.times) == 2


def timing_of(units: Sequence[Unit], bounds: Iterable[Bound]) -> Timing:
    """Choose one time column for each input: the most narrowly bounded ones, and the first ones if nothing decides."""
    pairs = _by_pair(units, bounds)
    chosen: dict[int, str] = {}
    unused: list[Bound] = []
    for pair in sorted(pairs, key=lambda pair: _preference(pair, pairs[pair], units)):
        sides = {owner(name, units): name for name in pair}
        if all(chosen.get(unit, name) == name for unit, name in sides.items()):
            chosen |= sides
        else:
            unused += pairs[pair]
    times = tuple(chosen.get(index, unit.times[0]) for index, unit in enumerate(units))
    bands = tuple(_bands(units, {pair: found for pair, found in pairs.items() if set(pair) <= set(times)}))
    timing = Timing(times, bands, ())
    return replace(timing, rest=tuple(_not_implied(unused, timing, units)))


def _by_pair(units: Sequence[Unit], bounds: Iterable[Bound]) -> dict[_Pair, list[Bound]]:
    """Group the bounds by their pair of times, each pair in the order of the inputs."""
    pairs: dict[_Pair, list[Bound]] = {}
    for bound in bounds:
        if owner(bound.left, units) > owner(bound.right, units):
            bound = bound.turned
        pairs.setdefault((bound.left, bound.right), []).append(bound)
    return pairs


def _span(bounds: Iterable[Bound]) -> tuple[int | None, int | None]:
    """Return the least and the most distance that all bounds allow."""
    found = list(bounds)
    least = max((bound.least for bound in found if bound.least is not None), default=None)
    return least, min((bound.most for bound in found if bound.most is not None), default=None)


def _preference(pair: _Pair, bounds: Sequence[Bound], units: Sequence[Unit]) -> tuple[bool, int, bool, int]:
    """Return the sort key of a pair: closed before open, narrow before wide, stated before implied, first times
    first."""
    least, most = _span(bounds)
    is_implied = all(bound.conjunct is None for bound in bounds)
    is_open = least is None or most is None
    width = 0 if least is None or most is None else most - least
    return is_open, width, is_implied, sum(units[owner(time, units)].times.index(time) for time in pair)


def _bands(units: Sequence[Unit], pairs: Mapping[_Pair, Iterable[Bound]]) -> Iterator[Band]:
    """Yield one band for each pair of inputs: the intersection of its bounds."""
    for (left, right), bounds in sorted(pairs.items(), key=lambda item: [owner(name, units) for name in item[0]]):
        least, most = _span(bounds)
        yield Band(owner(left, units), owner(right, units), _negative(least), most)


def _negative(value: int | None) -> int | None:
    return None if value is None else -value


def _not_implied(bounds: Iterable[Bound], timing: Timing, units: Sequence[Unit]) -> Iterator[Expr]:
    """Yield the conditions of unused bounds, except those that always hold: windows of one size that start together end
    together."""
    lead = leads(len(units), timing.bands)
    for bound in bounds:
        left, right = owner(bound.left, units), owner(bound.right, units)
        are_equal = bound.least == bound.most == lead[left][right] == lead[right][left] == 0
        sides = (units[left], timing.times[left], bound.left), (units[right], timing.times[right], bound.right)
        if bound.conjunct is not None and not (are_equal and _end_together(*sides)):
            yield bound.conjunct


def implied_bounds(units: Sequence[Unit], bounds: Iterable[Bound]) -> list[Bound]:
    """Return the bounds on the times of every two inputs that follow from the given ones, also by way of other
    inputs."""
    if not all(unit.times for unit in units):
        return []
    timing = timing_of(units, bounds)
    lead = leads(len(units), timing.bands)
    return [
        Bound(timing.times[left], timing.times[right], _negative(lead[right][left]), lead[left][right], None)
        for left, right in combinations(range(len(units)), 2)
        if lead[left][right] is not None or lead[right][left] is not None
    ]


def _end_together(left: _Side, right: _Side) -> bool:
    """Return whether equal first times imply equal second times: both are start and end of windows of the same size."""
    borders = _borders(left)
    return borders == _borders(right) and set(borders[1:]) == set(WINDOW_COLUMNS) and borders[0] is not None


def _borders(side: _Side) -> tuple[int | None, str, str]:
    """Return the window size of the side's node, and the node's names of its two times."""
    unit, first, second = side
    own = {row: name for name, row in unit.own_to_row}
    return _window_size(unit.node), own[first], own[second]


def _window_size(node: Node) -> int | None:
    """Return the size of the windows that the node's rows belong to.

    Returns None if its columns window_start and window_end may be something else.
    """
    match node:
        case AssignWindows(window=window) | Aggregate(window=Window() as window):
            return window.size
        case Filter(input=below) | Distinct(input=below) | TopN(input=below):
            return _window_size(below)
        case Project(input=below, columns=columns):
            moved = [c for c in columns if c.name in WINDOW_COLUMNS and c.expression != Column(c.name)]
            return None if moved else _window_size(below)
    return None
