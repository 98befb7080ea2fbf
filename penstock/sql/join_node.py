"""One Join node from its inputs and conditions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from penstock.errors import QueryError
from penstock.expr.tree import Column, Expr
from penstock.operators.bands import leads
from penstock.plan.logical import Join
from penstock.plan.lost_time import why_no_time
from penstock.plan.schema import columns_of_node
from penstock.sql.conjuncts import all_of
from penstock.sql.equalities import Key, KeyPart, Keys, keys_of, typed
from penstock.sql.join_match import match_of
from penstock.sql.join_timing import Timing, timing_of
from penstock.sql.time_bounds import Bound
from penstock.sql.unit import Unit

_UNWINDOWED = "in Python, join(..., within=None) joins streams that end"


def join_of(units: Sequence[Unit], kind: str, conjuncts: Sequence[Expr], implied: Sequence[Bound] = ()) -> Unit:
    """All inputs in one join, in which all of the conditions hold, and the bounds that other joins imply."""
    for unit in units:
        _check_time(unit)
    match = match_of(units, conjuncts, implied)
    timing = timing_of(units, match.bounds)
    keys = keys_of(match.equalities, len(units))
    _check_bounded(units, timing)
    found = [typed(key, units) for key in _keys(keys, timing, kind)]
    checks = [check for _, further in found for check in further]
    condition = all_of((*match.rest, *timing.rest, *checks))
    return _unit(units, kind, [part for part, _ in found], timing, condition)


def last_rows_join(units: tuple[Unit, Unit], rows: tuple[int, int], conjuncts: Sequence[Expr]) -> Unit:
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
