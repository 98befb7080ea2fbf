"""Split the tokens of a script at `;` into statements, and read each from its tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from penstock.arrow import AnyField
from penstock.sql.parse.dialect import tree_of
from penstock.sql.parse.literals import type_named
from penstock.sql.parse.options import Options, Value, options_of, setting_of
from penstock.sql.parse.place import ScriptText
from penstock.sql.parse.tree import place_of, placing


@dataclass(frozen=True)
class CreateSource:
    """A CREATE SOURCE statement. `schema` is None if no columns are declared, `watermark` if the clause is missing."""

    name: str
    offset: int
    if_new: bool
    schema: pa.Schema | None
    watermark: exp.WatermarkColumnConstraint | None
    options: Options


@dataclass(frozen=True)
class CreateView:
    """A CREATE VIEW statement with its query."""

    name: str
    offset: int
    if_new: bool
    query: exp.Expr


@dataclass(frozen=True)
class CreateSink:
    """A CREATE SINK statement over a query, or over a source or view by name, which is an Identifier."""

    name: str
    offset: int
    if_new: bool
    query: exp.Expr
    options: Options


@dataclass(frozen=True)
class Select:
    """A query without a name."""

    query: exp.Expr


@dataclass(frozen=True)
class Set:
    """A SET statement."""

    key: str
    value: Value


Statement = CreateSource | CreateView | CreateSink | Select | Set


def statements(tokens: Sequence[Token], text: ScriptText) -> Iterator[Statement]:
    """Yield the statements of a script, in order; empty ones are skipped."""
    start = 0
    for end in (*(i for i, t in enumerate(tokens) if t.token_type == TokenType.SEMICOLON), len(tokens)):
        if end > start:
            yield _statement(tree_of(list(tokens[start:end]), text), text)
        start = end + 1


def _statement(tree: exp.Expr, text: ScriptText) -> Statement:
    match tree:
        case exp.Set():
            return Set(*setting_of(tree.expressions[0]))
        case exp.Create() if not tree.args.get("with_"):
            return _created(tree, text)
    return Select(tree)


def _created(tree: exp.Create, text: ScriptText) -> Statement:
    named = tree.find(exp.Identifier, bfs=True)
    head = named.name, place_of(named), bool(tree.args["exists"])
    if tree.kind == "VIEW":
        return CreateView(*head, tree.expression)
    options = options_of(tree.args["properties"], text)
    if tree.kind == "SINK":
        return CreateSink(*head, tree.expression, options)
    schema, marks = _columns(tree.this.expressions, head[1], text)
    return CreateSource(*head, schema, marks[0] if marks else None, options)


def _columns(
    declared: Sequence[exp.Expr], offset: int, text: ScriptText
) -> tuple[pa.Schema | None, list[exp.WatermarkColumnConstraint]]:
    """Return the columns of a source, None if it declares none, and its WATERMARK clauses. Refuses a column name that
    is declared twice, and more than one WATERMARK."""
    fields = [_field(column, text) for column in declared if isinstance(column, exp.ColumnDef)]
    marks = [mark for mark in declared if isinstance(mark, exp.WatermarkColumnConstraint)]
    names = [field.name for field in fields]
    twice = next((n for i, n in enumerate(names) if n.lower() in (m.lower() for m in names[:i])), None)
    if twice is not None:
        hint = "leave one out; the case of letters makes no difference"
        raise text.error(f"column `{twice}` is declared twice", offset, hint=hint)
    if len(marks) > 1:
        raise text.error("a source has one WATERMARK, and this one has more", offset, hint="keep one of them")
    return pa.schema(fields) if fields else None, marks


def _field(column: exp.ColumnDef, text: ScriptText) -> AnyField:
    with placing(column.kind, text):
        return pa.field(column.name, type_named(column.kind.name))
