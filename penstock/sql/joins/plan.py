"""From the tree of FROM to a plan: chains of inner joins become one Join where they have one key, others are nested.

Conditions on one input go below the join where that keeps the meaning; of the others some bound times, some are
equalities, and the rest is checked for each combination.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from penstock.errors import QueryError
from penstock.expr.tree import Column, Expr, columns_of
from penstock.operators.bands import leads
from penstock.plan.logical import Join
from penstock.plan.lost_time import why_no_time
from penstock.plan.schema import columns_of_node
from penstock.sql.joins.time_bounds import (
    Bound,
    Times,
    Timing,
    bound_of,
    bucket_bound,
    comparisons,
    implied_bounds,
    timing_of,
)
from penstock.sql.joins.tree import Joined, Leaf, Tree, names_of
from penstock.sql.joins.unit import Equality, Key, KeyPart, Keys, Unit, equality_of, keys_of, owner, typed
from penstock.sql.names.conjuncts import all_of
from penstock.sql.parse.place import ScriptText

_Conjuncts = tuple[Expr, ...]

# On which sides of a join a condition of ON about that side only can be a filter, and on which one of WHERE can.
_ON_BELOW = {"left": "r", "right": "l", "full": "", "semi": "lr", "anti": "r"}
_WHERE_BELOW = {"left": "l", "right": "r", "full": "", "semi": "l", "anti": "l"}
_UNWINDOWED = "in Python, join(..., within=None) joins streams that end"


def unit_of(tree: Tree, conjuncts: _Conjuncts, text: ScriptText) -> Unit:
    """The rows of a part of FROM for which conditions over them hold."""
    match tree:
        case Leaf():
            return tree.unit.filtered(conjuncts)
        case Joined(last_rows=(int(), int()) as sizes):
            units = unit_of(tree.left, (), text), unit_of(tree.right, (), text)
            with text.placing(lambda: tree.offset):
                return _last_rows_join(units, sizes, (*tree.on, *conjuncts))
        case Joined(kind="inner"):
            return _inner(tree, conjuncts, text)
    return _outer(tree, conjuncts, text)


def _outer(tree: Joined, where: _Conjuncts, text: ScriptText) -> Unit:
    """A join of two inputs of another kind than inner."""
    sides = {"l": names_of(tree.left), "r": names_of(tree.right)}
    on = {side: _about(tree.on, sides[side]) if side in _ON_BELOW[tree.kind] else () for side in sides}
    below = {side: _about(where, sides[side]) if side in _WHERE_BELOW[tree.kind] else () for side in sides}
    left = unit_of(tree.left, on["l"] + below["l"], text)
    right = unit_of(tree.right, on["r"] + below["r"], text)
    with text.placing(lambda: tree.offset):
        joined = _join_of((left, right), tree.kind, _without(tree.on, on["l"] + on["r"]))
    return joined.filtered(_without(where, below["l"] + below["r"]))


def _inner(tree: Joined, conjuncts: _Conjuncts, text: ScriptText) -> Unit:
    inputs, on = _gathered(tree)
    every = (*on, *conjuncts)
    single = [_about(every, names_of(part)) for part in inputs]
    units = [unit_of(part, about, text) for part, about in zip(inputs, single, strict=True)]
    between = _without(every, tuple(conjunct for about in single for conjunct in about))
    with text.placing(lambda: tree.offset):
        return _join_of(units, "inner", between) if _is_flat(units, between) else _nested(units, between)


def _gathered(tree: Tree) -> tuple[list[Tree], _Conjuncts]:
    """The inputs of inner joins of inner joins, and all of their conditions."""
    match tree:
        case Joined(kind="inner", last_rows=None):
            (left, first), (right, second) = _gathered(tree.left), _gathered(tree.right)
            return left + right, (*first, *second, *tree.on)
    return [tree], ()


def _is_flat(units: Sequence[Unit], conjuncts: _Conjuncts) -> bool:
    """Whether all inputs are in one join: two always are, more if all equalities are about keys that all have."""
    if len(units) == 2:
        return True
    keys = keys_of(_match_of(units, conjuncts).equalities, len(units))
    return bool(keys.complete) and keys.is_whole


def _nested(units: Sequence[Unit], conjuncts: _Conjuncts) -> Unit:
    """One join after another, beginning with the first input; next comes the first that is connected to it. What
    bounds the times of two inputs by way of others holds for them already."""
    joined, waiting = units[0], list(units[1:])
    implied = implied_bounds(units, _match_of(units, conjuncts).bounds)
    while waiting:
        following = min(waiting, key=lambda unit: _distance(joined, unit, conjuncts, implied))
        ready = tuple(c for c in conjuncts if set(columns_of(c)) <= {*joined.names, *following.names})
        joined = _join_of((joined, following), "inner", ready, implied)
        conjuncts = _without(conjuncts, ready)
        waiting = [unit for unit in waiting if unit is not following]
    return joined


def _distance(joined: Unit, unit: Unit, conjuncts: _Conjuncts, implied: Sequence[Bound]) -> int:
    """How little two inputs are connected: best is an equality and a bound on their times, worst is no bound."""
    among = [c for c in conjuncts if set(columns_of(c)) <= {*joined.names, *unit.names}]
    match = _match_of((joined, unit), among, implied)
    return (0 if match.bounds else 2) + (0 if match.equalities else 1)


def _about(conjuncts: _Conjuncts, names: frozenset[str]) -> _Conjuncts:
    """The conditions that read these columns and no others."""
    return tuple(c for c in conjuncts if (read := set(columns_of(c))) and read <= names)


def _without(conjuncts: _Conjuncts, others: _Conjuncts) -> _Conjuncts:
    return tuple(c for c in conjuncts if not any(c is other for other in others))


def _join_of(units: Sequence[Unit], kind: str, conjuncts: Sequence[Expr], implied: Sequence[Bound] = ()) -> Unit:
    """All inputs in one join, in which all of the conditions hold, and the bounds that other joins imply."""
    for unit in units:
        _check_time(unit)
    match = _match_of(units, conjuncts, implied)
    timing = timing_of(units, match.bounds)
    keys = keys_of(match.equalities, len(units))
    _check_bounded(units, timing)
    found = [typed(key, units) for key in _keys(keys, timing, kind)]
    checks = [check for _, further in found for check in further]
    condition = all_of((*match.rest, *timing.rest, *checks))
    return _unit(units, kind, [part for part, _ in found], timing, condition)


def _last_rows_join(units: tuple[Unit, Unit], rows: tuple[int, int], conjuncts: Sequence[Expr]) -> Unit:
    """The join over the last rows of each of two inputs."""
    for unit in units:
        _check_time(unit)
    timing = Timing(tuple(unit.times[0] for unit in units), (), ())
    return _unit(units, "inner", [], timing, all_of(conjuncts), rows)


def _unit(
    units: Sequence[Unit],
    kind: str,
    parts: Sequence[KeyPart],
    timing: Timing,
    condition: Expr | None,
    last_rows: tuple[int, int] | None = None,
) -> Unit:
    keys = tuple(tuple(part[index] for part in parts) for index in range(len(units)))
    times = tuple(_own(unit, time) for unit, time in zip(units, timing.times, strict=True))
    inputs, names = tuple(unit.node for unit in units), tuple(unit.names for unit in units)
    node = Join(inputs, kind, keys, times, timing.bands, condition, names, last_rows)
    written = tuple(name for unit in units for name in unit.written)[: len(columns_of_node(node))]
    return Unit(node, columns_of_node(node), " and ".join(unit.label for unit in units), written)


def _own(unit: Unit, time: str) -> str:
    return columns_of_node(unit.node)[unit.names.index(time)]


def _keys(keys: Keys, timing: Timing, kind: str) -> tuple[Key, ...]:
    """Equal times alone are a key too, so that rows are spread by them; only inner joins do without a key."""
    if keys.complete:
        return keys.complete
    if timing.is_equal:
        return (Key(tuple(map(Column, timing.times))),)
    if kind == "inner":
        return ()
    raise QueryError(
        f"a {kind} join needs an equality",
        detail="only inner joins can be without one",
        hint="add one to ON, as in a.k = b.k",
    )


def _check_time(unit: Unit) -> None:
    if not unit.times:
        detail, hint = why_no_time(unit.node)
        raise QueryError(f"`{unit.label}` cannot be joined: it has no time any more", detail=detail, hint=hint)


def _check_bounded(units: Sequence[Unit], timing: Timing) -> None:
    """Every two times must be bounded on both sides, directly or by way of others."""
    lead = leads(len(units), timing.bands)
    for left, right in combinations(range(len(units)), 2):
        ahead, behind = lead[left][right], lead[right][left]
        if ahead is None or behind is None:
            raise _unbounded(units, timing, (left, right), (behind, ahead))
        if ahead + behind < 0:
            what = f"no times of `{units[left].label}` and `{units[right].label}` satisfy the bounds on them"
            raise QueryError(
                what, hint="write the lower bound first, as in BETWEEN a.ts AND a.ts + INTERVAL '5' SECOND"
            )


def _unbounded(
    units: Sequence[Unit], timing: Timing, pair: tuple[int, int], bounds: tuple[int | None, int | None]
) -> QueryError:
    left, right = (units[index] for index in pair)
    if left.has_timestamps != right.has_timestamps:
        what = f"the times of `{left.label}` and `{right.label}` are of different types"
        return QueryError(what, hint="a TIMESTAMP and a BIGINT cannot bound each other")
    if bounds == (None, None):
        what = f"the join of `{left.label}` and `{right.label}` has no bound on time"
        return QueryError(what, detail="rows would have to be kept for ever", hint=_hint(left, right, timing, pair))
    kept, other = (left, right) if bounds[1] is None else (right, left)
    what = f"the join of `{left.label}` and `{right.label}` has a bound on time on one side only"
    detail = f"rows of `{kept.label}` would have to be kept for ever for those of `{other.label}`"
    return QueryError(what, detail=detail, hint=_hint(left, right, timing, pair))


def _hint(left: Unit, right: Unit, timing: Timing, pair: tuple[int, int]) -> str:
    a, b = (
        unit.written[unit.names.index(timing.times[index])] for unit, index in zip((left, right), pair, strict=True)
    )
    span = "INTERVAL '5' SECOND" if left.has_timestamps else "5"
    return f"add a band to ON, as in {b} BETWEEN {a} - {span} AND {a} + {span}; {_UNWINDOWED}"


@dataclass(frozen=True)
class _Match:
    bounds: tuple[Bound, ...]
    equalities: tuple[Equality, ...]
    rest: tuple[Expr, ...]


def _match_of(units: Sequence[Unit], conjuncts: Iterable[Expr], implied: Iterable[Bound] = ()) -> _Match:
    """The conditions of a join, by what they are good for, and the bounds that are implied, if they are about it."""
    times = Times({time for unit in units for time in unit.times}, all(unit.has_timestamps for unit in units))
    bounds = [bound for bound in implied if {bound.left, bound.right} <= times.names and _is_between(bound, units)]
    equalities: list[Equality] = []
    rest: list[Expr] = []
    for conjunct in _halves(conjuncts, units, times):
        if (bound := _bound(conjunct, units, times)) is not None:
            bounds.append(bound)
        elif (equality := equality_of(conjunct, units)) is not None:
            equalities.append(equality)
            bucket = bucket_bound(equality[0].expression, equality[1].expression, times)
            bounds.extend([bucket] if bucket is not None else [])
        else:
            rest.append(conjunct)
    return _Match(tuple(bounds), tuple(equalities), tuple(rest))


def _halves(conjuncts: Iterable[Expr], units: Sequence[Unit], times: Times) -> Iterator[Expr]:
    """A BETWEEN is two conditions where one of them bounds a time, and stays one otherwise."""
    for conjunct in conjuncts:
        halves = comparisons(conjunct)
        yield from halves if any(_bound(half, units, times) for half in halves) else (conjunct,)


def _bound(conjunct: Expr, units: Sequence[Unit], times: Times) -> Bound | None:
    """A bound on the times of two different inputs, which are of one type."""
    bound = bound_of(conjunct, times)
    return bound if bound is not None and _is_between(bound, units) else None


def _is_between(bound: Bound, units: Sequence[Unit]) -> bool:
    left, right = owner(bound.left, units), owner(bound.right, units)
    return left != right and units[left].has_timestamps == units[right].has_timestamps
