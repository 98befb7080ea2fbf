"""ROW_NUMBER() OVER (PARTITION BY ... ORDER BY ...): the only call with OVER that has a plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from penstock.errors import QueryError
from penstock.expr.tree import Column, Expr
from penstock.plan.logical import Order
from penstock.sql.names.expression import translate
from penstock.sql.names.scope import Scope
from penstock.sql.parse.tree import extra_parts, without_parentheses
from penstock.sql.select.slots import ROW_NUMBER_SLOT
from penstock.sql.streams.ranked import Ranking

_TOP = "write ROW_NUMBER() OVER (PARTITION BY window_start, k ORDER BY x DESC) AS rn, and around it WHERE rn <= 3"
_RANKS = ("rank", "dense_rank", "percent_rank", "cume_dist", "ntile")


@dataclass(frozen=True)
class Over:
    """The PARTITION BY and ORDER BY of an OVER clause."""

    partition: tuple[Expr, ...]
    order: tuple[Order, ...]

    def mapped(self, change: Callable[[Expr], Expr]) -> Over:
        """Return the clause with `change` applied to all its expressions."""
        order = tuple(replace(part, expression=change(part.expression)) for part in self.order)
        return Over(tuple(map(change, self.partition)), order)

    def ranking(self, times: Sequence[str]) -> Ranking:
        """Return the ranking: the first progressing attribute in PARTITION BY completes groups, the others are keys."""
        time = next((key.name for key in self.partition if isinstance(key, Column) and key.name in times), None)
        keys = tuple(key for key in self.partition if not (isinstance(key, Column) and key.name == time))
        return Ranking(keys, time, self.order)


@dataclass
class Numbering:
    """Collects the ROW_NUMBER() of a query. It can occur several times; all occurrences must be equal."""

    node: exp.Window | None = None

    def take(self, node: exp.Expr) -> Expr:
        """Register a call with OVER and return the slot of the row number."""
        over = _row_number(node)
        if self.node is not None and self.node != over:
            raise QueryError("a query can have only one OVER (...)", hint="number the rows again in an enclosing query")
        self.node = over
        return ROW_NUMBER_SLOT

    def over(self, scope: Scope) -> Over | None:
        """Return the OVER clause translated in `scope`; None if the query numbers no rows."""
        if self.node is None:
            return None
        inner = replace(scope, on_over=None)
        partition = tuple(translate(node, inner) for node in self.node.args.get("partition_by") or ())
        return Over(partition, tuple(_order(node, inner) for node in self.node.args["order"].expressions))


def _row_number(node: exp.Expr) -> exp.Window:
    """Return the call if it is a ROW_NUMBER() that has a plan; refuse all other calls with OVER."""
    call = without_parentheses(node.this)
    name = call.name.lower() if isinstance(call, exp.Anonymous) else ""
    if name in _RANKS:
        raise QueryError(
            f"{name.upper()} is not supported", detail="any number of rows can have the same rank", hint=_TOP
        )
    if not isinstance(node, exp.Window) or name != "row_number" or call.expressions:
        raise QueryError("OVER is only supported with ROW_NUMBER()", hint="use an aggregate over a window in FROM")
    if any(extra_parts(node, ("this", "partition_by", "order", "over"))):
        raise QueryError("OVER takes PARTITION BY and ORDER BY only", hint=_TOP)
    if not node.args.get("order"):
        raise QueryError("ROW_NUMBER() needs an ORDER BY", detail="without one any row may be the first", hint=_TOP)
    return node


def _order(node: exp.Expr, scope: Scope) -> Order:
    """Translate one ORDER BY item."""
    if not isinstance(node, exp.Ordered):
        return Order(translate(node, scope))
    if any(extra_parts(node, ("this", "desc", "nulls_first"))):
        raise QueryError("ORDER BY takes expressions, with ASC or DESC and NULLS FIRST or LAST", hint=_TOP)
    return Order(translate(node.this, scope), bool(node.args.get("desc")), bool(node.args.get("nulls_first")))
