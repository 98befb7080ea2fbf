"""The plan of a SELECT before rows are numbered and duplicates are removed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from penstock.expr.tree import Expr, Named
from penstock.expr.walk import conjuncts_of
from penstock.plan.logical import Node
from penstock.sql.names.expression import translate
from penstock.sql.names.scope import Scope
from penstock.sql.select.over import Over
from penstock.sql.select.result_columns import SelectItem


@dataclass(frozen=True)
class Shaped:
    """A SELECT whose `columns`, `over` and `qualify` (the conjuncts of QUALIFY) read the rows of `node`.

    In all of them the slot NUMBER stands for the row number.
    """

    node: Node
    columns: tuple[Named, ...]
    over: Over | None
    qualify: tuple[Expr, ...]


def qualify_of(select: exp.Select, items: tuple[SelectItem, ...], scope: Scope) -> tuple[Expr, ...]:
    """Return the conjuncts of QUALIFY, which can use the aliases of the select list."""
    clause = select.args.get("qualify")
    if clause is None:
        return ()
    aliases = {item.alias: item.expression for item in items if item.alias}
    return conjuncts_of(translate(clause.this, replace(scope, computed={**scope.computed, **aliases})))
