"""Turn the tree of an aggregate call into an aggregate of the plan."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from penstock.errors import QueryError, did_you_mean
from penstock.expr.tree import Case, Expr, Literal
from penstock.sql.names.aggregate_names import AGGREGATE_NAMES, is_foreign
from penstock.sql.names.expression import translate
from penstock.sql.names.scope import Scope
from penstock.sql.parse.tree import extra_parts, placing, without_parentheses


@dataclass(frozen=True)
class AggregateCall:
    """An aggregate without a result name. `argument` is None only for `count(*)`."""

    function: str
    argument: Expr | None


def aggregate_call(node: exp.Expr, scope: Scope) -> AggregateCall:
    """Return the aggregate of the tree; `scope` is that of the input rows."""
    inner = replace(scope, on_aggregate=None, why_no_aggregate="an aggregate cannot be inside another one")
    with placing(node, scope.text):
        return _filtered(node, inner) if isinstance(node, exp.Filter) else _plain(node, inner)


def _filtered(node: exp.Filter, scope: Scope) -> AggregateCall:
    """Rewrite `f(x) FILTER (WHERE c)` to `f(CASE WHEN c THEN x END)`: aggregates skip nulls."""
    call = without_parentheses(node.this)
    if not isinstance(call, exp.Anonymous) or not isinstance(node.expression, exp.Where):
        raise QueryError("FILTER (WHERE ...) follows an aggregate", hint="as in sum(x) FILTER (WHERE x > 0)")
    plain = _plain(call, scope)
    condition = translate(node.expression.this, scope)
    value = Literal(1) if plain.argument is None else plain.argument
    return AggregateCall(plain.function, Case(((condition, value),), Literal(None)))


def _plain(node: exp.Expr, scope: Scope) -> AggregateCall:
    function = _function(node.name)
    arguments = node.expressions
    if any(extra_parts(node, ("this", "expressions"))) or len(arguments) > 1:
        raise QueryError(
            f"`{node.name}` takes one argument", hint=f"as in {node.name}(x), without ORDER BY and the like"
        )
    if function == "count" and (not arguments or isinstance(arguments[0], exp.Star)):
        return AggregateCall("count", None)
    if not arguments or isinstance(arguments[0], exp.Star):
        raise QueryError(f"`{node.name}` needs a column or an expression", hint=f"as in {node.name}(x)")
    if isinstance(arguments[0], exp.Distinct):
        return _distinct(function, arguments[0], scope)
    return AggregateCall(function, translate(arguments[0], scope))


def _function(name: str) -> str:
    """Return the plan's name of the aggregate."""
    if name.lower() in AGGREGATE_NAMES:
        return AGGREGATE_NAMES[name.lower()]
    if is_foreign(name):
        raise QueryError(f"unknown aggregate `{name}`", hint="known: " + ", ".join(f"`{n}`" for n in AGGREGATE_NAMES))
    raise QueryError(f"unknown aggregate `{name}`", hint=did_you_mean(name, AGGREGATE_NAMES))


def _distinct(function: str, node: exp.Distinct, scope: Scope) -> AggregateCall:
    """Return `count(DISTINCT x)`; DISTINCT in other aggregates is refused."""
    if function != "count":
        raise QueryError(f"DISTINCT inside `{function}` is not supported", hint="only count(DISTINCT x) is")
    if len(node.expressions) != 1:
        raise QueryError("count(DISTINCT x) takes one argument", hint="join the columns, as in concat_ws('/', a, b)")
    return AggregateCall("count_distinct", translate(node.expressions[0], scope))
