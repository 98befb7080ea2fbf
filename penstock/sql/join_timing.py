"""Which time of each input a join goes by, and the bands between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from penstock.expr.tree import Column, Expr
from penstock.operators.bands import Band, leads
from penstock.operators.window.windows import Window
from penstock.plan.logical import Aggregate, Distinct, Filter, Node, Project, TopN, Windows
from penstock.plan.schema import WINDOW_COLUMNS
from penstock.sql.time_bounds import Bound
from penstock.sql.unit import Unit, owner

Pair = tuple[str, str]  # times of two inputs, in the order of the inputs
Side = tuple[Unit, str, str]  # an input, a time of it, and another one


@dataclass(frozen=True)
class Timing:
    """The time of each input that the join goes by, the bands between them, and the conditions that are no bands."""

    times: tuple[str, ...]
    bands: tuple[Band, ...]
    rest: tuple[Expr, ...]

    @property
    def is_equal(self) -> bool:
        """Whether all times of a combination are equal."""
        tied = {index for band in self.bands if band.before == band.after == 0 for index in (band.left, band.right)}
        return len(tied) == len(self.times) and len(self.times) == 2


def timing_of(units: Sequence[Unit], bounds: Iterable[Bound]) -> Timing:
    """A join goes by one time of each input: those that are bounded most narrowly, the usual ones before others."""
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


def _by_pair(units: Sequence[Unit], bounds: Iterable[Bound]) -> dict[Pair, list[Bound]]:
    pairs: dict[Pair, list[Bound]] = {}
    for bound in bounds:
        if owner(bound.left, units) > owner(bound.right, units):
            bound = bound.turned
        pairs.setdefault((bound.left, bound.right), []).append(bound)
    return pairs


def _span(bounds: Iterable[Bound]) -> tuple[int | None, int | None]:
    """The least and the most that all of the bounds allow."""
    found = list(bounds)
    least = max((bound.least for bound in found if bound.least is not None), default=None)
    return least, min((bound.most for bound in found if bound.most is not None), default=None)


def _preference(pair: Pair, bounds: Sequence[Bound], units: Sequence[Unit]) -> tuple[bool, int, bool, int]:
    """Narrow bounds come before wide ones, and those that are written before those that follow from others."""
    least, most = _span(bounds)
    is_implied = all(bound.conjunct is None for bound in bounds)
    is_open = least is None or most is None
    width = 0 if least is None or most is None else most - least
    return is_open, width, is_implied, sum(units[owner(time, units)].times.index(time) for time in pair)


def _bands(units: Sequence[Unit], pairs: Mapping[Pair, Iterable[Bound]]) -> Iterator[Band]:
    """One band for each pair of inputs, as narrow as all of its bounds together."""
    for (left, right), bounds in sorted(pairs.items(), key=lambda item: [owner(name, units) for name in item[0]]):
        least, most = _span(bounds)
        yield Band(owner(left, units), owner(right, units), _negative(least), most)


def _negative(value: int | None) -> int | None:
    return None if value is None else -value


def _not_implied(bounds: Iterable[Bound], timing: Timing, units: Sequence[Unit]) -> Iterator[Expr]:
    """What the bounds say, without this: windows of one size that start together also end together."""
    lead = leads(len(units), timing.bands)
    for bound in bounds:
        left, right = owner(bound.left, units), owner(bound.right, units)
        are_equal = bound.least == bound.most == lead[left][right] == lead[right][left] == 0
        sides = (units[left], timing.times[left], bound.left), (units[right], timing.times[right], bound.right)
        if bound.conjunct is not None and not (are_equal and end_together(*sides)):
            yield bound.conjunct


def implied_bounds(units: Sequence[Unit], bounds: Iterable[Bound]) -> list[Bound]:
    """What bounds say about the times of every two inputs, also by way of others."""
    if not all(unit.times for unit in units):
        return []
    timing = timing_of(units, bounds)
    lead = leads(len(units), timing.bands)
    return [
        Bound(timing.times[left], timing.times[right], _negative(lead[right][left]), lead[left][right], None)
        for left, right in combinations(range(len(units)), 2)
        if lead[left][right] is not None or lead[right][left] is not None
    ]


def end_together(left: Side, right: Side) -> bool:
    """Whether inputs that are equal in the first time have to be equal in the second: they are the borders of windows
    of one size."""
    borders = _borders(left)
    return borders == _borders(right) and set(borders[1:]) == set(WINDOW_COLUMNS) and borders[0] is not None


def _borders(side: Side) -> tuple[int | None, str, str]:
    unit, first, second = side
    own = {row: name for name, row in unit.own_to_row}
    return window_size(unit.node), own[first], own[second]


def window_size(node: Node) -> int | None:
    """How long the windows are that a node gives rows for; None where it cannot be seen that its columns called like
    their borders are those."""
    match node:
        case Windows(window=window) | Aggregate(window=Window() as window):
            return window.size
        case Filter(input=below) | Distinct(input=below) | TopN(input=below):
            return window_size(below)
        case Project(input=below, columns=columns):
            moved = [c for c in columns if c.name in WINDOW_COLUMNS and c.expression != Column(c.name)]
            return None if moved else window_size(below)
    return None
