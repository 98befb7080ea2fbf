"""Rows that are numbered by ROW_NUMBER(): the first n of each group, once a bound says what n is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.errors import QueryError
from penstock.expr.tree import Call, Expr, Literal, Named, columns_of
from penstock.plan.endless import require_end
from penstock.plan.logical import Filter, Node, Order, Project, TopN
from penstock.sql.names.conjuncts import all_of

_PARTITION = "put window_start, of TUMBLE(...) in FROM, or the time into PARTITION BY, so that a group is complete"
_MIRRORED = {"<=": ">=", "<": ">", ">=": "<=", ">": "<", "=": "="}


@dataclass(frozen=True)
class Ranking:
    """Which rows are numbered together and in which order, over the columns of the rows."""

    keys: tuple[Expr, ...]
    time: str | None
    order: tuple[Order, ...]


@dataclass(frozen=True)
class Ranked:
    """A query that numbers its rows, before it is known how many are wanted.

    `number` is what the number is called behind the columns of `rows`, `column` what it is called in the result.
    """

    rows: Node
    ranking: Ranking
    number: str
    columns: tuple[Named, ...]
    column: str

    def first(self, n: int, conditions: Sequence[Expr] = ()) -> Node:
        """The first n rows of each group, of which the conditions hold; they are about the rows and their number."""
        used = any(self.number in columns_of(e) for e in (*conditions, *(c.expression for c in self.columns)))
        ranking, number = self.ranking, self.number if used else None
        node: Node = TopN(self.rows, ranking.keys, ranking.time, ranking.order, n, number)
        if (condition := all_of(conditions)) is not None:
            node = Filter(node, condition)
        return Project(node, self.columns)


def require_time(ranked: Ranked) -> None:
    """Refuse numbers over all rows of a stream that has no end."""
    if ranked.ranking.time is None:
        require_end(ranked.rows, "ROW_NUMBER()", _PARTITION)


def bounded(conjuncts: Sequence[Expr], number: Expr) -> tuple[int, list[Expr]] | None:
    """How many rows the conditions on the number let through, and what else they say; None where they set no bound."""
    bounds = [(bound, conjunct) for conjunct in conjuncts if (bound := _bound(conjunct, number)) is not None]
    if not bounds:
        return None
    n = min(bound for bound, _ in bounds)
    if n < 1:
        raise QueryError("the bound on ROW_NUMBER() lets no row through", hint="numbers begin at 1")
    implied = [conjunct for bound, conjunct in bounds if _says_no_more(conjunct, bound)]
    return n, [conjunct for conjunct in conjuncts if not any(conjunct is other for other in implied)]


def _says_no_more(conjunct: Expr, bound: int) -> bool:
    """Whether it is only an upper bound, for numbers from 1."""
    match conjunct:
        case Call("=", _):
            return bound == 1
        case Call("between", (_, low, _)):
            return isinstance(low, Literal) and isinstance(low.value, int) and low.value <= 1
    return True


def _bound(conjunct: Expr, number: Expr) -> int | None:
    """The greatest number for which a comparison with a constant can hold."""
    match conjunct:
        case Call("between", (operand, _, Literal(int() as most))) if operand == number:
            return most
        case Call(function, (Literal(int() as most), operand)) if operand == number and function in _MIRRORED:
            return _most(_MIRRORED[function], most)
        case Call(function, (operand, Literal(int() as most))) if operand == number:
            return _most(function, most)
    return None


def _most(function: str, value: int) -> int | None:
    match function:
        case "<=" | "=":
            return value
        case "<":
            return value - 1
    return None
