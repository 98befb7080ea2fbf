"""What the conditions of a join say: bounds on times, equalities, and the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from penstock.expr.tree import Expr
from penstock.sql.equalities import Equality, equality_of
from penstock.sql.time_bounds import Bound, Times, bound_of, bucket_bound, comparisons
from penstock.sql.unit import Unit, owner


@dataclass(frozen=True)
class Match:
    bounds: tuple[Bound, ...]
    equalities: tuple[Equality, ...]
    rest: tuple[Expr, ...]


def match_of(units: Sequence[Unit], conjuncts: Iterable[Expr], implied: Iterable[Bound] = ()) -> Match:
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
    return Match(tuple(bounds), tuple(equalities), tuple(rest))


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
