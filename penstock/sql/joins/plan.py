"""Plan the tree of FROM: a chain of inner joins becomes one Join if its inputs share a key, otherwise nested Joins.

Conditions on one input are pushed below the join where the result stays the same. Of the others, some bound times, some
are equalities, and the rest is checked for each combination of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from penstock.errors import QueryError
from penstock.expr.comparisons import halves_of
from penstock.expr.tree import Column, Expr
from penstock.expr.walk import all_of, columns_of
from penstock.operators.bands import leads
from penstock.plan.logical import Join
from penstock.plan.lost_time import why_no_time
from penstock.plan.schema import columns_of_node
from penstock.sql.joins.time_bounds import (
    Bound,
    JoinTimes,
    Timing,
    bound_of,
    bucket_bound,
    implied_bounds,
    timing_of,
)
from penstock.sql.joins.tree import Joined, Leaf, Tree, names_of
from penstock.sql.joins.unit import Equality, Key, KeyPart, Keys, Unit, equality_of, keys_of, owner, typed
from penstock.sql.parse.place import ScriptText

_Conjuncts = tuple[Expr, ...]

# By kind of join: the sides into which a condition of ON, or of WHERE, on that side only can be pushed as a filter.
_ON_BELOW = {"left": "r", "right": "l", "full": "", "semi": "lr", "anti": "r"}
_WHERE_BELOW = {"left": "l", "right": "r", "full": "", "semi": "l", "anti": "l"}
_UNWINDOWED = "in Python, join(..., within=None) joins streams that end"


def unit_of(tree: Tree, conjuncts: _Conjuncts, text: ScriptText) -> Unit:
    """Plan a part of FROM, keeping the rows that satisfy all conjuncts."""
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
    """Plan a join of two inputs of any kind but inner."""
    sides = {"l": names_of(tree.left), "r": names_of(tree.right)}
    on = {side: _about(tree.on, sides[side]) if side in _ON_BELOW[tree.kind] else () for side in sides}
    below = {side: _about(where, sides[side]) if side in _WHERE_BELOW[tree.kind] else () for side in sides}
    left = unit_of(tree.left, on["l"] + below["l"], text)
    right = unit_of(tree.right, on["r"] + below["r"], text)
    with text.placing(lambda: tree.offset):
        joined = _join_of((left, right), tree.kind, _without(tree.on, on["l"] + on["r"]))
    return joined.filtered(_without(where, below["l"] + below["r"]))


def _inner(tree: Joined, conjuncts: _Conjuncts, text: ScriptText) -> Unit:
    """Plan a chain of inner joins; conditions on one input are pushed into it."""
    inputs, on = _gathered(tree)
    every = (*on, *conjuncts)
    single = [_about(every, names_of(part)) for part in inputs]
    units = [unit_of(part, about, text) for part, about in zip(inputs, single, strict=True)]
    between = _without(every, tuple(conjunct for about in single for conjunct in about))
    with text.placing(lambda: tree.offset):
        return _join_of(units, "inner", between) if _is_flat(units, between) else _nested(units, between)


def _gathered(tree: Tree) -> tuple[list[Tree], _Conjuncts]:
    """Return the inputs of nested inner joins, from left to right, and all their conditions."""
    match tree:
        case Joined(kind="inner", last_rows=None):
            (left, first), (right, second) = _gathered(tree.left), _gathered(tree.right)
            return left + right, (*first, *second, *tree.on)
    return [tree], ()


def _is_flat(units: Sequence[Unit], conjuncts: _Conjuncts) -> bool:
    """Return whether one Join takes all inputs: always for two, for more if every equality belongs to a key of all
    inputs."""
    if len(units) == 2:
        return True
    keys = keys_of(_match_of(units, conjuncts).equalities, len(units))
    return bool(keys.complete) and keys.is_whole


def _nested(units: Sequence[Unit], conjuncts: _Conjuncts) -> Unit:
    """Join two inputs at a time, from the first input on; the next one is the first of those best connected to it.

    Bounds on two times that follow by way of other inputs are used as well.
    """
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
    """Return a rank of how well two inputs are connected, from 0 (equality and time bound) to 3 (neither)."""
    among = [c for c in conjuncts if set(columns_of(c)) <= {*joined.names, *unit.names}]
    match = _match_of((joined, unit), among, implied)
    return (0 if match.bounds else 2) + (0 if match.equalities else 1)


def _about(conjuncts: _Conjuncts, names: frozenset[str]) -> _Conjuncts:
    """Return the conditions that read at least one of these columns and no others."""
    return tuple(c for c in conjuncts if (read := set(columns_of(c))) and read <= names)


def _without(conjuncts: _Conjuncts, others: _Conjuncts) -> _Conjuncts:
    """Return the conjuncts that are not among `others`, compared by identity."""
    return tuple(c for c in conjuncts if not any(c is other for other in others))


def _join_of(units: Sequence[Unit], kind: str, conjuncts: Sequence[Expr], implied: Sequence[Bound] = ()) -> Unit:
    """Join all inputs in one Join under the conjuncts; `implied` are time bounds that other joins enforce."""
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
    """Join two inputs over the last rows of each; `rows` are the numbers of rows."""
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
    """Build the Join and return it as a unit, whose columns have the same names in the node and in the rows."""
    keys = tuple(tuple(part[index] for part in parts) for index in range(len(units)))
    times = tuple(_own(unit, time) for unit, time in zip(units, timing.times, strict=True))
    inputs, names = tuple(unit.node for unit in units), tuple(unit.names for unit in units)
    node = Join(inputs, kind, keys, times, timing.bands, condition, names, last_rows)
    written = tuple(name for unit in units for name in unit.written)[: len(columns_of_node(node))]
    return Unit(node, columns_of_node(node), " and ".join(unit.label for unit in units), written)


def _own(unit: Unit, time: str) -> str:
    """Return the node's own name of a time column of the rows."""
    return columns_of_node(unit.node)[unit.names.index(time)]


def _keys(keys: Keys, timing: Timing, kind: str) -> tuple[Key, ...]:
    """Return the keys of the join. Without equalities, equal times are the key, so that rows are partitioned by time.

    Only inner joins can do without a key.
    """
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
    """Refuse an input without a time column."""
    if not unit.times:
        detail, hint = why_no_time(unit.node)
        raise QueryError(f"`{unit.label}` cannot be joined: it has no time column", detail=detail, hint=hint)


def _check_bounded(units: Sequence[Unit], timing: Timing) -> None:
    """Refuse inputs whose times are not bounded in both directions, directly or by way of others, or never match."""
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
    """Return the error for two inputs without both bounds on their times."""
    left, right = (units[index] for index in pair)
    if left.has_timestamps != right.has_timestamps:
        what = f"the times of `{left.label}` and `{right.label}` are of different types"
        return QueryError(what, hint="a TIMESTAMP and a BIGINT cannot bound each other")
    if bounds == (None, None):
        what = f"the join of `{left.label}` and `{right.label}` has no bound on time"
        return QueryError(what, detail="rows would have to be kept forever", hint=_hint(left, right, timing, pair))
    kept, other = (left, right) if bounds[1] is None else (right, left)
    what = f"the join of `{left.label}` and `{right.label}` has a bound on time on one side only"
    detail = f"rows of `{kept.label}` would have to be kept forever for those of `{other.label}`"
    return QueryError(what, detail=detail, hint=_hint(left, right, timing, pair))


def _hint(left: Unit, right: Unit, timing: Timing, pair: tuple[int, int]) -> str:
    a, b = (
        unit.written[unit.names.index(timing.times[index])] for unit, index in zip((left, right), pair, strict=True)
    )
    span = "INTERVAL '5' SECOND" if left.has_timestamps else "5"
    return f"add a band to ON, as in {b} BETWEEN {a} - {span} AND {a} + {span}; {_UNWINDOWED}"


@dataclass(frozen=True)
class _Match:
    """The conditions of a join by their use: time bounds, equalities and the rest."""

    bounds: tuple[Bound, ...]
    equalities: tuple[Equality, ...]
    rest: tuple[Expr, ...]


def _match_of(units: Sequence[Unit], conjuncts: Iterable[Expr], implied: Iterable[Bound] = ()) -> _Match:
    """Classify the conditions of a join, and add those implied bounds that relate two of its inputs."""
    times = JoinTimes({time for unit in units for time in unit.times}, all(unit.has_timestamps for unit in units))
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


def _halves(conjuncts: Iterable[Expr], units: Sequence[Unit], times: JoinTimes) -> Iterator[Expr]:
    """Yield the conjuncts, with a BETWEEN split into two comparisons if one of them bounds a time."""
    for conjunct in conjuncts:
        halves = halves_of(conjunct)
        yield from halves if any(_bound(half, units, times) for half in halves) else (conjunct,)


def _bound(conjunct: Expr, units: Sequence[Unit], times: JoinTimes) -> Bound | None:
    """Return the bound on the times of two different inputs of the same time type, or None."""
    bound = bound_of(conjunct, times)
    return bound if bound is not None and _is_between(bound, units) else None


def _is_between(bound: Bound, units: Sequence[Unit]) -> bool:
    left, right = owner(bound.left, units), owner(bound.right, units)
    return left != right and units[left].has_timestamps == units[right].has_timestamps
