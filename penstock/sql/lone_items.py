"""Parse SQL text that is not a statement: one condition, one item of a select list, or one aggregate.

Python programs pass such text, as in `where("qty > 1")`. It is parsed as an item of a SELECT, so it means the same as
in a script and its errors have the same messages with a caret.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from penstock.errors import QueryError
from penstock.expr.tree import Expr, Named
from penstock.plan.logical import Aggregation
from penstock.plan.naming import aggregate_name
from penstock.sql.names.aggregate_call import aggregate_call
from penstock.sql.names.aggregate_names import is_aggregate
from penstock.sql.names.expression import translate
from penstock.sql.names.scope import Scope, stream_scope
from penstock.sql.parse.dialect import room_for_nesting, tokens_of, tree_of
from penstock.sql.parse.place import ScriptText
from penstock.sql.parse.tree import extra_parts, place_of, without_parentheses
from penstock.sql.select.result_columns import items_of, require_name

_NO_AGGREGATE = "an aggregate is not allowed here: the expression is evaluated for each row"


def lone_expression(text: str, columns: Iterable[str], what: str) -> Expr:
    """Parse the text as one expression over the columns; messages refer to the text as `what`."""
    with room_for_nesting():
        script, tree = _read(text, what)
        if isinstance(tree, exp.Alias):
            raise script.error("an alias is not allowed here", place_of(tree), hint=f"leave out AS {tree.alias}")
        return translate(tree, _scope(script, columns))


def lone_items(text: str, columns: Iterable[str], what: str) -> tuple[Named, ...]:
    """Parse the text as one item of a select list; return its columns: one, or all for `*`.

    An item without AS is named after its text.
    """
    with room_for_nesting():
        script, tree = _read(text, what)
        items = items_of(exp.Select(expressions=[tree]), _scope(script, columns))
        return tuple(Named(item.alias or item.names[0], item.expression) for item in items)


def lone_aggregate(text: str, columns: Iterable[str], what: str) -> Aggregation:
    """Parse the text as one aggregate, such as `sum(qty)`; its name is its alias or the default name of the
    aggregate."""
    with room_for_nesting():
        script, tree = _read(text, what)
        call = without_parentheses(tree.this if isinstance(tree, exp.Alias) else tree)
        if not is_aggregate(call):
            raise script.error(
                "one aggregate was expected here",
                place_of(call),
                hint="write it as in sum(qty); compute from aggregates in a select after it",
            )
        found = aggregate_call(call, _scope(script, columns))
        name = require_name(tree, script) if isinstance(tree, exp.Alias) else ""
        return Aggregation(name or aggregate_name(found.function, found.argument), found.function, found.argument)


def item_tree(tokens: Sequence[Token], text: ScriptText, error: QueryError) -> exp.Expr:
    """Return the tree of tokens that form one item of a select list; raise `error` if they form anything else.

    Precondition: there is at least one token.
    """
    first = tokens[0]
    select = Token(TokenType.SELECT, "SELECT", line=first.line, col=first.col, start=first.start, end=first.end)
    tree = tree_of([select, *tokens], text)
    if not isinstance(tree, exp.Select) or len(tree.expressions) != 1 or any(extra_parts(tree, ("expressions",))):
        raise error
    return tree.expressions[0]


def _read(text: str, what: str) -> tuple[ScriptText, exp.Expr]:
    script = ScriptText(text, what)
    tokens = tokens_of(script)
    if not tokens:
        raise QueryError(f"the text of {what} is empty", hint='write the name of a column, or SQL such as "qty > 1"')
    end = next((token for token in tokens if token.token_type == TokenType.SEMICOLON), None)
    if end is not None:
        raise script.error("`;` is not allowed here", end.start, hint="write one expression, without a `;`")
    hint = "write one expression, as in a select list; pass several as separate arguments"
    return script, item_tree(tokens, script, script.error("one expression was expected here", 0, hint=hint))


def _scope(text: ScriptText, columns: Iterable[str]) -> Scope:
    return replace(stream_scope(text, "", columns), why_no_aggregate=_NO_AGGREGATE)
