"""Queries with ROW_NUMBER(), which keep the first n rows of each group once a condition sets n."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.errors import QueryError
from penstock.expr.comparisons import MIRRORED
from penstock.expr.tree import Call, Expr, Literal, Named
from penstock.expr.walk import all_of, columns_of
from penstock.plan.endless import require_end
from penstock.plan.logical import Filter, Node, Order, Project, TopN

_PARTITION = "add window_start (of TUMBLE(...) in FROM) or the time column to PARTITION BY, so that groups can complete"


@dataclass(frozen=True)
class Ranking:
    """The PARTITION BY keys, the time column among them if any, and the ORDER BY of ROW_NUMBER(), over the input
    rows."""

    keys: tuple[Expr, ...]
    time: str | None
    order: tuple[Order, ...]


@dataclass(frozen=True)
class Ranked:
    """A query that numbers its rows and has no bound yet on how many to keep.

    `number` is the column that TopN adds to the columns of `rows`; `column` is its name in the result.
    """

    rows: Node
    ranking: Ranking
    number: str
    columns: tuple[Named, ...]
    column: str

    def first(self, n: int, conditions: Sequence[Expr] = ()) -> Node:
        """Return the plan that keeps the first n rows of each group, then those that satisfy the conditions.

        The conditions read the columns of `rows` and `number`; TopN adds `number` only if it is read.
        """
        used = any(self.number in columns_of(e) for e in (*conditions, *(c.expression for c in self.columns)))
        ranking, number = self.ranking, self.number if used else None
        node: Node = TopN(self.rows, ranking.keys, ranking.time, ranking.order, n, number)
        if (condition := all_of(conditions)) is not None:
            node = Filter(node, condition)
        return Project(node, self.columns)


def require_time(ranked: Ranked) -> None:
    """Refuse ROW_NUMBER() over all rows of an unbounded stream."""
    if ranked.ranking.time is None:
        require_end(ranked.rows, "ROW_NUMBER()", _PARTITION)


def bounded(conjuncts: Sequence[Expr], number: Expr) -> tuple[int, list[Expr]] | None:
    """Return n, the greatest row number that the conjuncts allow, and the conjuncts that this bound does not imply.

    Returns None if no conjunct bounds the number from above.
    """
    bounds = [(bound, conjunct) for conjunct in conjuncts if (bound := _bound(conjunct, number)) is not None]
    if not bounds:
        return None
    n = min(bound for bound, _ in bounds)
    if n < 1:
        raise QueryError("the bound on ROW_NUMBER() excludes every row", hint="numbers begin at 1")
    implied = [conjunct for bound, conjunct in bounds if _says_no_more(conjunct, bound)]
    return n, [conjunct for conjunct in conjuncts if not any(conjunct is other for other in implied)]


def _says_no_more(conjunct: Expr, bound: int) -> bool:
    """Return whether the conjunct is equivalent to `number <= bound`, for numbers from 1."""
    match conjunct:
        case Call("=", _):
            return bound == 1
        case Call("between", (_, low, _)):
            return isinstance(low, Literal) and isinstance(low.value, int) and low.value <= 1
    return True


def _bound(conjunct: Expr, number: Expr) -> int | None:
    """Return the greatest number for which a comparison with a constant can hold; None if it sets no upper bound."""
    match conjunct:
        case Call("between", (operand, _, Literal(int() as most))) if operand == number:
            return most
        case Call(function, (Literal(int() as most), operand)) if operand == number and function in MIRRORED:
            return _most(MIRRORED[function], most)
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
