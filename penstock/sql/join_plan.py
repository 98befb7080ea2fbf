"""From the tree of FROM to a plan: chains of inner joins become one Join where they have one key, others are nested.

Conditions on one input go below the join where that keeps the meaning.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.expr.tree import Expr, columns_of
from penstock.sql.equalities import keys_of
from penstock.sql.from_tree import Joined, Leaf, Tree, names_of
from penstock.sql.join_match import match_of
from penstock.sql.join_node import join_of, last_rows_join
from penstock.sql.join_timing import implied_bounds
from penstock.sql.place import ScriptText
from penstock.sql.time_bounds import Bound
from penstock.sql.unit import Unit

Conjuncts = tuple[Expr, ...]

# On which sides of a join a condition of ON about that side only can be a filter, and on which one of WHERE can.
_ON_BELOW = {"left": "r", "right": "l", "full": "", "semi": "lr", "anti": "r"}
_WHERE_BELOW = {"left": "l", "right": "r", "full": "", "semi": "l", "anti": "l"}


def unit_of(tree: Tree, conjuncts: Conjuncts, text: ScriptText) -> Unit:
    """The rows of a part of FROM for which conditions over them hold."""
    match tree:
        case Leaf():
            return tree.unit.filtered(conjuncts)
        case Joined(last_rows=(int(), int()) as sizes):
            units = unit_of(tree.left, (), text), unit_of(tree.right, (), text)
            with text.placing(lambda: tree.offset):
                return last_rows_join(units, sizes, (*tree.on, *conjuncts))
        case Joined(kind="inner"):
            return _inner(tree, conjuncts, text)
    return _outer(tree, conjuncts, text)


def _outer(tree: Joined, where: Conjuncts, text: ScriptText) -> Unit:
    """A join of two inputs of another kind than inner."""
    sides = {"l": names_of(tree.left), "r": names_of(tree.right)}
    on = {side: _about(tree.on, sides[side]) if side in _ON_BELOW[tree.kind] else () for side in sides}
    below = {side: _about(where, sides[side]) if side in _WHERE_BELOW[tree.kind] else () for side in sides}
    left = unit_of(tree.left, on["l"] + below["l"], text)
    right = unit_of(tree.right, on["r"] + below["r"], text)
    with text.placing(lambda: tree.offset):
        joined = join_of((left, right), tree.kind, _without(tree.on, on["l"] + on["r"]))
    return joined.filtered(_without(where, below["l"] + below["r"]))


def _inner(tree: Joined, conjuncts: Conjuncts, text: ScriptText) -> Unit:
    inputs, on = _gathered(tree)
    every = (*on, *conjuncts)
    single = [_about(every, names_of(part)) for part in inputs]
    units = [unit_of(part, about, text) for part, about in zip(inputs, single, strict=True)]
    between = _without(every, tuple(conjunct for about in single for conjunct in about))
    with text.placing(lambda: tree.offset):
        return join_of(units, "inner", between) if _is_flat(units, between) else _nested(units, between)


def _gathered(tree: Tree) -> tuple[list[Tree], Conjuncts]:
    """The inputs of inner joins of inner joins, and all of their conditions."""
    match tree:
        case Joined(kind="inner", last_rows=None):
            (left, first), (right, second) = _gathered(tree.left), _gathered(tree.right)
            return left + right, (*first, *second, *tree.on)
    return [tree], ()


def _is_flat(units: Sequence[Unit], conjuncts: Conjuncts) -> bool:
    """Whether all inputs are in one join: two always are, more if all equalities are about keys that all have."""
    if len(units) == 2:
        return True
    keys = keys_of(match_of(units, conjuncts).equalities, len(units))
    return bool(keys.complete) and keys.is_whole


def _nested(units: Sequence[Unit], conjuncts: Conjuncts) -> Unit:
    """One join after another, beginning with the first input; next comes the first that is connected to it. What
    bounds the times of two inputs by way of others holds for them already."""
    joined, waiting = units[0], list(units[1:])
    implied = implied_bounds(units, match_of(units, conjuncts).bounds)
    while waiting:
        following = min(waiting, key=lambda unit: _distance(joined, unit, conjuncts, implied))
        ready = tuple(c for c in conjuncts if set(columns_of(c)) <= {*joined.names, *following.names})
        joined = join_of((joined, following), "inner", ready, implied)
        conjuncts = _without(conjuncts, ready)
        waiting = [unit for unit in waiting if unit is not following]
    return joined


def _distance(joined: Unit, unit: Unit, conjuncts: Conjuncts, implied: Sequence[Bound]) -> int:
    """How little two inputs are connected: best is an equality and a bound on their times, worst is no bound."""
    among = [c for c in conjuncts if set(columns_of(c)) <= {*joined.names, *unit.names}]
    match = match_of((joined, unit), among, implied)
    return (0 if match.bounds else 2) + (0 if match.equalities else 1)


def _about(conjuncts: Conjuncts, names: frozenset[str]) -> Conjuncts:
    """The conditions that read these columns and no others."""
    return tuple(c for c in conjuncts if (read := set(columns_of(c))) and read <= names)


def _without(conjuncts: Conjuncts, others: Conjuncts) -> Conjuncts:
    return tuple(c for c in conjuncts if not any(c is other for other in others))
