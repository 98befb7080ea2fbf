"""Translate a sqlglot tree to an expression. Node types that are not listed here, and unknown parts of nodes, are
refused."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import reduce
from itertools import islice

from sqlglot import exp

from penstock.errors import QueryError
from penstock.expr.functions import require_function
from penstock.expr.tree import Call, Case, Expr, Literal
from penstock.expr.walk import walk
from penstock.sql.names.aggregate_names import is_aggregate
from penstock.sql.names.scope import Scope, field_of
from penstock.sql.parse import literals
from penstock.sql.parse.tree import dotted_names, extra_parts, place_of, placing, without_parentheses

_WHERE_AGGREGATES_STAND = "use aggregates in SELECT and HAVING of a query over a window; in Python, in .agg(...)"
_SEMI = "write a SEMI or an ANTI JOIN, with a bound on time"
_MAX_REPEATED = 1_000  # nodes of an operand that is copied into every branch; nested CASEs would multiply it
_BINARY: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "//",
    exp.Mod: "%",
    exp.Pow: "pow",
    exp.DPipe: "||",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.And: "and",
    exp.Or: "or",
    exp.NullSafeEQ: "is_not_distinct_from",
    exp.NullSafeNEQ: "is_distinct_from",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
}
_PATTERNS: dict[type[exp.Expr], str] = {exp.Like: "like", exp.ILike: "ilike"}
# Flags of sqlglot about the dialect; they are set as DuckDB defines the operators.
_NOTES = ("typed", "safe")


def translate(node: exp.Expr, scope: Scope) -> Expr:
    """Return the expression of a tree, with its names resolved in `scope`. Errors show their place in the text."""
    node = without_parentheses(node)
    with placing(node, scope.text):
        if is_aggregate(node):
            return _aggregate(node, scope)
        if type(node) in _BINARY:
            return _binary(node, scope)
        return _HANDLERS.get(type(node), _unsupported)(node, scope)


def _aggregate(node: exp.Expr, scope: Scope) -> Expr:
    if scope.on_aggregate is None:
        raise QueryError(scope.why_no_aggregate, hint=_WHERE_AGGREGATES_STAND)
    return scope.on_aggregate(node)


def _over(node: exp.Expr, scope: Scope) -> Expr:
    if scope.on_over is None:
        raise QueryError("OVER is not allowed here", hint="number rows in SELECT or QUALIFY, by ROW_NUMBER()")
    return scope.on_over(node)


def _binary(node: exp.Expr, scope: Scope) -> Expr:
    _only(node, "this", "expression", *_NOTES)
    return Call(_BINARY[type(node)], (translate(node.this, scope), translate(node.expression, scope)))


def _only(node: exp.Expr, *known: str) -> None:
    """Refuse a node with parts other than `known`."""
    for _ in extra_parts(node, known):
        raise _refusal(node)


def _refusal(node: exp.Expr) -> QueryError:
    """Return the error for an expression that is not supported."""
    return QueryError(
        f"this kind of expression is not supported: {type(node).__name__.lower()}",
        hint="use arithmetic, comparisons, AND, OR, NOT, CASE, CAST, BETWEEN, IN, LIKE, IS NULL, EXTRACT and functions",
    )


def _unsupported(node: exp.Expr, scope: Scope) -> Expr:
    if isinstance(node, exp.Exists):
        raise QueryError("EXISTS is not supported", hint=_SEMI)
    if isinstance(node, exp.Query):
        raise QueryError("a query inside an expression is not supported", hint="write it in FROM, or as a view")
    raise _refusal(node)


def _column(node: exp.Expr, scope: Scope) -> Expr:
    _only(node, "this", "table", "db", "catalog")
    if not isinstance(node.this, exp.Identifier):
        raise QueryError("`*` is not allowed here", hint="`*` is a whole item of SELECT, or the argument of count")
    return scope.column(dotted_names(node), place_of(node))


def _dot(node: exp.Expr, scope: Scope) -> Expr:
    """Translate `(expression).field`, and the names after the fourth of `a.b.c.d.e`."""
    names: list[str] = []
    while isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        names.insert(0, node.expression.name)
        node = node.this
    if isinstance(node, exp.Dot):
        raise _refusal(node)
    if isinstance(node, exp.Column):
        return scope.column([*dotted_names(node), *names], place_of(node))
    return reduce(field_of, names, translate(node, scope))


def _bracket(node: exp.Expr, scope: Scope) -> Expr:
    """Translate `a[1]` to an element of an array, counted from 1 as in DuckDB, and `m['key']` to a map entry."""
    _only(node, "this", "expressions", "offset")
    match node.expressions:
        case [exp.Literal(is_string=True) as key]:
            return Call("map_extract_value", (translate(node.this, scope), Literal(str(key.this))))
        case [exp.Literal() as index] if str(index.this).isdigit():
            # sqlglot counts from 0 in every dialect.
            return Call("array_extract", (translate(node.this, scope), Literal(int(index.this) + 1)))
    raise QueryError(
        "brackets take a constant number or string",
        hint="as in tags[1] or counts['key']; otherwise use array_extract or map_extract_value",
    )


def _literal(node: exp.Expr, scope: Scope) -> Expr:
    return Literal(str(node.this)) if node.args.get("is_string") else literals.number(str(node.this))


def _negative(node: exp.Expr, scope: Scope) -> Expr:
    match translate(node.this, scope):
        case Literal(int() | float() | Decimal() as value) if not isinstance(value, bool):
            return Literal(-value)
        case operand:
            return Call("-", (operand,))


def _not(node: exp.Expr, scope: Scope) -> Expr:
    """Translate NOT; `NOT x IS NULL` becomes `is_not_null`."""
    match translate(node.this, scope):
        case Call("is_null", arguments) if isinstance(without_parentheses(node.this), exp.Is):
            return Call("is_not_null", arguments)
        case operand:
            return Call("not", (operand,))


def _is(node: exp.Expr, scope: Scope) -> Expr:
    """Translate IS NULL, and IS TRUE and IS FALSE as comparisons that are never null."""
    _only(node, "this", "expression")
    operand, other = translate(node.this, scope), node.expression
    if isinstance(other, exp.Null):
        return Call("is_null", (operand,))
    if isinstance(other, exp.Boolean):
        return Call("is_not_distinct_from", (operand, Literal(bool(other.this))))
    raise _refusal(node)


def _between(node: exp.Expr, scope: Scope) -> Expr:
    _only(node, "this", "low", "high")
    return Call("between", tuple(translate(node.args[part], scope) for part in ("this", "low", "high")))


def _in(node: exp.Expr, scope: Scope) -> Expr:
    """Translate IN with a list of values."""
    if node.args.get("query"):
        raise QueryError("IN takes a list of values", hint=f"a query inside an expression is not supported; {_SEMI}")
    _only(node, "this", "expressions")
    parts = tuple(translate(part, scope) for part in (node.this, *node.expressions))
    return Call(require_function("in", len(parts)).name, parts)


def _like(node: exp.Expr, scope: Scope, *escape: Expr) -> Expr:
    """Translate LIKE and ILIKE. sqlglot marks NOT on this node, also inside an ESCAPE."""
    _only(node, "this", "expression", "negate")
    found = Call(_PATTERNS[type(node)], (translate(node.this, scope), translate(node.expression, scope), *escape))
    return Call("not", (found,)) if node.args.get("negate") else found


def _escape(node: exp.Expr, scope: Scope) -> Expr:
    pattern = without_parentheses(node.this)
    if type(pattern) not in _PATTERNS:
        raise _refusal(node)
    return _like(pattern, scope, translate(node.expression, scope))


def _case(node: exp.Expr, scope: Scope) -> Expr:
    """Translate CASE; `CASE x WHEN 1 ...` becomes `CASE WHEN x = 1 ...`."""
    _only(node, "this", "ifs", "default")
    operand = translate(node.this, scope) if node.this else None
    if operand is not None and _is_large(operand):
        raise QueryError("the operand of CASE is too large", hint="compute it in a view first")
    branches = tuple(_branch(branch, operand, scope) for branch in node.args["ifs"])
    default = node.args.get("default")
    return Case(branches, translate(default, scope) if default is not None else Literal(None))


def _branch(branch: exp.Expr, operand: Expr | None, scope: Scope) -> tuple[Expr, Expr]:
    condition = translate(branch.this, scope)
    if operand is not None:
        condition = Call("=", (operand, condition))
    return condition, translate(branch.args["true"], scope)


def _is_large(expression: Expr) -> bool:
    """Return whether the expression has more than _MAX_REPEATED nodes."""
    return any(True for _ in islice(walk(expression), _MAX_REPEATED, None))


def _cast(node: exp.Expr, scope: Scope) -> Expr:
    _only(node, "this", "to", "safe")
    type_name = node.args["to"].sql(dialect="duckdb")
    return literals.cast(translate(node.this, scope), type_name, isinstance(node, exp.TryCast))


def _extract(node: exp.Expr, scope: Scope) -> Expr:
    return Call("date_part", (Literal(node.this.name.lower()), translate(node.expression, scope)))


def _function(node: exp.Expr, scope: Scope) -> Expr:
    _only(node, "this", "expressions")
    arguments = tuple(translate(argument, scope) for argument in node.expressions)
    return Call(require_function(node.name, len(arguments)).name, arguments)


_HANDLERS: dict[type[exp.Expr], Callable[[exp.Expr, Scope], Expr]] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Boolean: lambda node, scope: Literal(bool(node.this)),
    exp.Null: lambda node, scope: Literal(None),
    exp.Interval: lambda node, scope: Literal(literals.interval_of(node)),
    exp.Neg: _negative,
    exp.Not: _not,
    exp.Is: _is,
    exp.Between: _between,
    exp.In: _in,
    exp.Escape: _escape,
    exp.Like: _like,
    exp.ILike: _like,
    exp.Case: _case,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Extract: _extract,
    exp.Anonymous: _function,
    exp.Dot: _dot,
    exp.Bracket: _bracket,
    exp.Window: _over,
}
