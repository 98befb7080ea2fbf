"""The parser of scripts: CREATE SOURCE, CREATE SINK, CREATE VIEW, SET, and queries.

`WATERMARK FOR ts AS ts - INTERVAL '2' SECOND` declares the time column and the greatest lateness of a row. `WATERMARK
FOR ts BY PUNCTUATION WHERE kind = 'mark'` declares punctuation: rows that match the condition advance the watermark and
are not rows of the stream, unless KEEP ROWS follows. Statements become sqlglot's nodes, which `statements` reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from penstock.sql.parse.query_parser import QueryParser, is_name, is_word

HOW_WATERMARK = (
    "write WATERMARK FOR ts AS ts - INTERVAL '2' SECOND among the columns, with the greatest lateness of a row; "
    "or WATERMARK FOR ts AS ts if rows come in order"
)
HOW_PUNCTUATED = "write WATERMARK FOR ts BY PUNCTUATION WHERE kind = 'mark', then KEEP ROWS if those rows are data too"
_STATEMENTS = "a script has CREATE SOURCE, CREATE SINK, CREATE VIEW, SELECT and SET statements, separated by `;`"
_CONNECTOR = "name the connector, as in WITH (connector = 'files', path = 'calls/*.parquet')"
_SINK = "write CREATE SINK name WITH (...) AS SELECT ..., or CREATE SINK name FROM view WITH (...)"
_CONSTRAINTS = ("NOT", "NULL", "PRIMARY", "UNIQUE", "DEFAULT", "CHECK", "REFERENCES", "GENERATED", "METADATA", "AS")
_QUERY = (TokenType.SELECT, TokenType.FROM, TokenType.WITH, TokenType.VALUES, TokenType.L_PAREN)


class PunctuationClause(exp.Expression):  # type: ignore[misc]
    """`PUNCTUATION WHERE this`, and KEEP ROWS if `keep`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "keep": False}


class ScriptParser(QueryParser):
    """The parser of queries, which also parses the statements of a script."""

    def statement(self) -> exp.Expr | None:
        """Parse one statement of a script."""
        if self._match(TokenType.CREATE):
            return self._parse_create()
        if self._match(TokenType.SET):
            return exp.Set(expressions=[self._setting()])
        if self._match_set(_QUERY, advance=False):
            return self._parse_statement()
        raise self._refused(f"`{self._curr.text}` does not start a statement", _STATEMENTS)

    def _parse_create(self) -> exp.Create:
        """Parse what follows CREATE."""
        if self._match_text_seq("SOURCE") or self._match(TokenType.TABLE):
            return self._source(**self._head("source"))
        if self._match_text_seq("SINK"):
            return self._sink(**self._head("sink"))
        if self._match(TokenType.VIEW) or self._match_text_seq("MATERIALIZED", "VIEW"):
            head = self._head("view")
            self._expect("AS")
            return exp.Create(**head, expression=self._query())
        raise self._refused("only sources, sinks and views can be created", _STATEMENTS)

    def _head(self, kind: str) -> dict[str, Any]:
        """Parse the name after CREATE kind, and IF NOT EXISTS before it."""
        exists = self._parse_exists(not_=True)
        return {"kind": kind, "exists": exists, "this": self._name(f"the name of the {kind}")}

    def _source(self, this: exp.Identifier, **head: Any) -> exp.Create:
        has_columns = self._match(TokenType.L_PAREN, advance=False)
        columns = self._parse_wrapped_csv(self._parse_field_def) if has_columns else []
        return exp.Create(this=exp.Schema(this=this, expressions=columns), properties=self._options(), **head)

    def _sink(self, **head: Any) -> exp.Create:
        """Parse CREATE SINK. WITH comes before AS or after the query; with FROM it comes last."""
        if self._match(TokenType.FROM):
            rows = self._name("the name of a view or source")
            return exp.Create(**head, expression=rows, properties=self._options())
        if self._match(TokenType.ALIAS):
            query = self._query()
            if self._curr and not self._match(TokenType.WITH, advance=False):
                self.raise_error("Unexpected token")
            return exp.Create(**head, expression=query, properties=self._options())
        options = self._options()
        self._expect("AS", hint=_SINK)
        return exp.Create(**head, expression=self._query(), properties=options)

    def _query(self) -> exp.Expr | None:
        if not self._curr:
            raise self._refused("a query was expected here", "write it after AS, as in AS SELECT ... FROM ...")
        return self._parse_statement()

    def _parse_table_hints(self) -> None:
        """Leave WITH after a stream to CREATE SINK: there are no hints."""

    def _options(self) -> exp.Properties:
        """Parse `WITH (key = value, ...)`."""
        self._expect("WITH", hint=_CONNECTOR)
        return exp.Properties(expressions=self._parse_wrapped_properties())

    def _parse_property(self) -> exp.Property | None:
        if self._list_is_empty():
            return None
        key = self._key()
        self._expect("=")
        return exp.Property(this=key, value=self._value())

    def _setting(self) -> exp.Property:
        """Parse a SET statement after the word SET. Its value may be a bare word."""
        key = self._key()
        if not self._match_text_seq("TO"):
            self._expect("=")
        is_boolean = self._match_set((TokenType.TRUE, TokenType.FALSE), advance=False)
        is_bare = self._curr and is_name(self._curr) and not is_boolean
        return exp.Property(this=key, value=self._name("a value") if is_bare else self._value())

    def _key(self) -> exp.Expr:
        """Parse a key such as `path`, `kafka.group.id` or `'path'`; unquoted words become lower case."""
        if self._match(TokenType.STRING):
            return self._identifier(self._prev.text, self._prev)
        return self._dotted_name("the name of an option", lower=True)

    def _value(self) -> exp.Expr:
        """Parse a string, a boolean, or a number, which stays as it is written."""
        sign = "-" if self._match(TokenType.DASH) else ""
        if self._match(TokenType.NUMBER):
            return exp.Literal(this=sign + self._prev.text, is_string=False)
        if not sign and self._match(TokenType.STRING):
            return exp.Literal(this=self._prev.text, is_string=True)
        if not sign and self._match_set((TokenType.TRUE, TokenType.FALSE)):
            return exp.Boolean(this=self._prev.token_type == TokenType.TRUE)
        what = f"`{self._curr.text}` is not a value" if self._curr else "the statement ends too early"
        raise self._refused(what, "a value is a string in '...', a number, true or false")

    def _parse_field_def(self) -> exp.Expr | None:
        """Parse one entry of a column list: a column with its type as text, or the WATERMARK clause."""
        if self._list_is_empty():
            return None
        if self._match_text_seq("WATERMARK"):
            return self._watermark()
        name, first = self._dotted_name("the name of a column"), self._curr
        tokens = self._until_comma()
        constraint = next((t for t in _outside_brackets(tokens) if is_word(t, *_CONSTRAINTS)), None)
        if constraint is not None:
            hint = "leave it out; a view with WHERE can filter rows"
            raise self.script.error("column constraints are not supported", constraint.start, hint=hint)
        written = self._find_sql(tokens[0], tokens[-1]) if tokens else ""
        return exp.ColumnDef(this=name, kind=self._identifier(written, first))

    def _watermark(self) -> exp.WatermarkColumnConstraint:
        """Parse a WATERMARK clause after the word WATERMARK."""
        first = self._curr
        self._expect("FOR", hint=HOW_WATERMARK)
        column = self._dotted_name("the time column")
        rule = self._punctuation() if self._match_text_seq("BY") else self._slack(column.name, first)
        return self._placed(exp.WatermarkColumnConstraint(this=column, expression=rule), first)

    def _slack(self, column: str, first: Token) -> exp.Expr:
        """Parse `AS ts` or `AS ts - span`; return the column or the span."""
        self._expect("AS", hint=HOW_WATERMARK)
        again = self._dotted_name("the time column")
        if again.name.lower() != column.lower():
            what = f"the watermark of `{column}` is computed from `{again.name}`"
            raise self.script.error(what, first.start, hint=HOW_WATERMARK)
        span = self._parse_disjunction() if self._match(TokenType.DASH) else again
        if span is None or not self._item_ends():
            what = "a watermark is the time column, or the time column minus a span"
            raise self.script.error(what, first.start, hint=HOW_WATERMARK)
        return span

    def _punctuation(self) -> PunctuationClause:
        """Parse the clause after BY: `PUNCTUATION WHERE condition [KEEP ROWS]`."""
        self._expect("PUNCTUATION", "WHERE", hint=HOW_PUNCTUATED)
        first, condition = self._curr, self._parse_disjunction()
        if condition is None:
            raise self._refused("a condition was expected here", HOW_PUNCTUATED)
        keep = self._match_text_seq("KEEP", "ROWS")
        if not self._item_ends():
            what = "syntax error: one condition was expected here"
            raise self.script.error(what, first.start, hint=HOW_PUNCTUATED)
        return self._placed(PunctuationClause(this=condition, keep=keep), first)

    def _until_comma(self) -> list[Token]:
        """Move to the comma or closing parenthesis that ends this item of a list; return the tokens before it. Commas
        in parentheses and between `<` and `>` belong to the item."""
        start, depth = self._index, 0
        while self._curr and not (depth == 0 and self._item_ends()):
            depth += sum(map(self._curr.text.count, "(<")) - sum(map(self._curr.text.count, ")>"))
            self._advance()
        tokens: list[Token] = self._tokens[start : self._index]
        return tokens

    def _item_ends(self) -> bool:
        """Return whether the comma or parenthesis after an item of a list comes next."""
        return bool(self._curr.token_type in (TokenType.COMMA, TokenType.R_PAREN))

    def _list_is_empty(self) -> bool:
        return bool(self._prev.token_type == TokenType.L_PAREN and self._curr.token_type == TokenType.R_PAREN)

    def _expect(self, *words: str, hint: str = "") -> None:
        """Move past the words; an error if anything else comes next."""
        if not self._match_text_seq(*words):
            found = f"`{self._curr.text}`" if self._curr else "the end of the statement"
            raise self._refused(f"expected `{' '.join(words)}`, found {found}", hint)

    def _dotted_name(self, what: str, *, lower: bool = False) -> exp.Identifier:
        """Parse a name, or several separated by dots, as one; if `lower`, unquoted names become lower case."""
        first = self._curr
        names: list[str] = []
        while not names or self._match(TokenType.DOT):
            name = self._name(what).name
            names.append(name.lower() if lower and self._prev.token_type != TokenType.IDENTIFIER else name)
        return self._identifier(".".join(names), first)


def _outside_brackets(tokens: Sequence[Token]) -> Iterator[Token]:
    """Yield the tokens of a type outside parentheses and angle brackets, which hold the types and names of fields."""
    depth = 0
    for token in tokens:
        depth -= token.text.count(")") + token.text.count(">")
        if depth == 0:
            yield token
        depth += token.text.count("(") + token.text.count("<")
