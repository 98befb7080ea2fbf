"""The parser of queries: DuckDB's as sqlglot parses them, and the forms of FROM that sqlglot does not know, as calls.

`FROM calls [RANGE 1 MINUTE SLIDE 10 SECONDS WA ts]` becomes a call of `BRACKET` with the arguments of HOP; a missing
time column is NULL, and the last argument says whether GAPS is written. `[ROWS 100 SLIDE 10]` becomes a call of `ROWS`.
After a select list, as in `SELECT count(*) [RANGE 1 MINUTE] FROM calls`, the window becomes the last item: a call
without a stream. `FROM a UNION b` becomes a call of `UNION`. Flink's `TABLE(HOP(TABLE calls, DESCRIPTOR(ts), ...))`
loses the words TABLE; `calls PARTITION BY k` as an argument becomes two arguments.

Function calls keep the name and arguments that the user wrote and do not become one of sqlglot's many classes, because
`expr.functions` decides which functions exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.tokens import Token, TokenType

from penstock.errors import QueryError
from penstock.sql.parse.literals import is_unit
from penstock.sql.parse.place import LOOK_AROUND, ScriptText

BRACKET, ROWS, PARTITION, UNION = "[window]", "[rows]", "[partition]", "[union]"  # no words of SQL: no user calls them
_KEYWORDS = ("RANGE", "SLIDE", "WA", "ROWS", "GAPS")
_HOW = "write [RANGE 1 MINUTE SLIDE 10 SECONDS WA ts], where SLIDE and WA may be left out, or [ROWS 100 SLIDE 10]"
_NO_STREAM = ("SELECT", "FROM", "VALUES", "WITH", "TABLE", "ALL", "DISTINCT", "BY")
_WITH_SYNTAX = ("CAST", "TRY_CAST", "EXTRACT")
_OPENS_WINDOW = TokenType.BLOCK_START  # no token of SQL: a `[` that cannot be an index
_QUOTED = DuckDB.Parser.TEXT_MATCH_EXCLUDED_TOKENS
_Table = dict[Any, Any]
_Node = TypeVar("_Node", bound=exp.Expr)


def is_word(token: Token, *words: str) -> bool:
    """Return whether the token is one of the words, unquoted, in any case. `words` are upper case."""
    return token.token_type not in _QUOTED and token.text.upper() in words


def is_name(token: Token) -> bool:
    """Return whether the token can be a name: a quoted identifier or a word."""
    is_written = token.token_type not in _QUOTED and (token.text[:1].isalpha() or token.text[:1] == "_")
    return bool(token.token_type == TokenType.IDENTIFIER or is_written)


def with_windows(tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens, in which the `[` of a window differs from that of an array or an index such as `a[rows]`."""
    return [_opening(token) if _opens_window(tokens[i : i + 5]) else token for i, token in enumerate(tokens)]


def _opens_window(tokens: Sequence[Token]) -> bool:
    if len(tokens) < 3 or tokens[0].token_type != TokenType.L_BRACKET or not is_word(tokens[1], *_KEYWORDS):
        return False
    if tokens[2].token_type == TokenType.DASH:  # a length below zero, which is refused with what to write
        return is_unit(tokens[-1].text)
    return is_name(tokens[2]) or tokens[2].token_type in (TokenType.NUMBER, TokenType.STRING, TokenType.COMMA)


def _opening(at: Token) -> Token:
    return Token(_OPENS_WINDOW, at.text, line=at.line, col=at.col, start=at.start, end=at.end)


class QueryParser(DuckDB.Parser):  # type: ignore[misc]
    """DuckDB's parser, in which only forms with their own syntax (CAST, EXTRACT, CASE) have their own classes. `script`
    is the text of the tokens."""

    FUNCTIONS: ClassVar[_Table] = {}
    FUNCTION_PARSERS: ClassVar[_Table] = {name: DuckDB.Parser.FUNCTION_PARSERS[name] for name in _WITH_SYNTAX}
    NO_PAREN_FUNCTIONS: ClassVar[_Table] = {}
    NO_PAREN_FUNCTION_PARSERS: ClassVar[_Table] = {"CASE": DuckDB.Parser.NO_PAREN_FUNCTION_PARSERS["CASE"]}
    FUNC_TOKENS: ClassVar[set[TokenType]] = {*DuckDB.Parser.FUNC_TOKENS, TokenType.SESSION}
    script: ScriptText

    def _parse_table(self, *arguments: Any, joins: bool = False, **options: Any) -> exp.Expr | None:
        """Parse one item of FROM; a window may follow the stream or its alias."""
        if self._match_pair(TokenType.TABLE, TokenType.L_PAREN):
            table = self._parse_table()
            self._match_r_paren()
        elif union := self._union():
            table = exp.Table(this=union)
        else:
            table = super()._parse_table(*arguments, joins=joins, **options)
            if not self._match(_OPENS_WINDOW, advance=False):
                return table
        if table is None:
            return None
        alias = table.args.get("alias") or self._parse_table_alias()
        if self._match(_OPENS_WINDOW, advance=False):
            table.set("alias", None)
            table = exp.Table(this=self._window([table]))
        table.set("alias", alias or self._parse_table_alias())
        for join in self._parse_joins() if joins else ():
            table.append("joins", join)
        return table

    def _union(self) -> exp.Anonymous | None:
        """Parse `a UNION b UNION ALL c`, with names of streams only."""
        first, names = self._index, self._tokens[self._index : self._index + 1]
        while is_stream_name(names[-1:]) and self._match_stream_and_union():
            names.append(self._curr)
        if len(names) < 2:
            self._retreat(first)
            return None
        self._advance()
        return self._call(UNION, [exp.Column(this=self._identifier(name.text, name)) for name in names], names[0])

    def _match_stream_and_union(self) -> bool:
        """Move past a name and the UNION or UNION ALL after it if another name follows; return whether one does."""
        start = self._index
        self._advance()
        if self._match(TokenType.UNION):
            self._match(TokenType.ALL)
            if is_stream_name(self._tokens[self._index : self._index + 1]):
                return True
        self._retreat(start)
        return False

    def _parse_function_args(self, alias: bool = False) -> list[exp.Expr]:
        """Parse arguments; PARTITION BY may follow the first. Several keys are in parentheses."""
        self._skip_table()
        arguments: list[exp.Expr] = super()._parse_function_args(alias)
        first = self._curr
        if len(arguments) != 1 or not self._match(TokenType.PARTITION_BY):
            return arguments
        in_parentheses = self._match(TokenType.L_PAREN, advance=False)
        keys = self._parse_wrapped_csv(self._parse_column) if in_parentheses else [self._parse_column()]
        rest = super()._parse_function_args(alias) if self._match(TokenType.COMMA) else []
        return [*arguments, self._call(PARTITION, keys, first), *rest]

    def _parse_disjunction(self) -> exp.Expr | None:
        if self._prev.token_type == TokenType.FARROW:
            self._skip_table()
        parsed: exp.Expr | None = super()._parse_disjunction()
        return parsed

    def _skip_table(self) -> None:
        """Move past the word TABLE before a name."""
        if self._curr.token_type == TokenType.TABLE and self._next and is_name(self._next):
            self._advance()

    def _parse_projections(self) -> tuple[list[exp.Expr], list[exp.Expr] | None]:
        items, excluded = super()._parse_projections()
        return [*items, self._window([])] if self._match(_OPENS_WINDOW, advance=False) else items, excluded

    def _window(self, stream: list[exp.Expr]) -> exp.Anonymous:
        """Parse a bracket; return `BRACKET(stream, time or NULL, slide, size, gaps)` or `ROWS(stream, slide, size)`.

        Keywords come in any order, commas are optional.
        """
        first = self._curr
        self._advance()
        parts: dict[str, exp.Expr] = {}
        while not self._match(TokenType.R_BRACKET):
            keyword = self._curr.text.upper() if self._curr else ""
            if keyword and (keyword not in _KEYWORDS or keyword in parts):
                what = f"`{self._curr.text}` is not expected in a window"
                raise self.script.error(what, self._curr.start, hint=_HOW)
            self._take()
            parts[keyword] = self._window_part(keyword)
            self._match(TokenType.COMMA)
        self._check_window(parts)
        if "ROWS" in parts:
            return self._call(ROWS, [*stream, parts.get("SLIDE", parts["ROWS"]), parts["ROWS"]], first)
        time, gaps = parts.get("WA", exp.Null()), parts.get("GAPS", exp.Boolean(this=False))
        return self._call(BRACKET, [*stream, time, parts.get("SLIDE", parts["RANGE"]), parts["RANGE"], gaps], first)

    def _check_window(self, parts: dict[str, exp.Expr]) -> None:
        what = ""
        if ("RANGE" in parts) == ("ROWS" in parts):
            what = "the window has no RANGE" if "RANGE" not in parts else "the window has both RANGE and ROWS"
        elif "ROWS" in parts and ("WA" in parts or "GAPS" in parts):
            what = "a window of rows has no time"
        if what:
            raise self.script.error(what, self._curr.start if self._curr else self._prev.end + 1, hint=_HOW)

    def _window_part(self, keyword: str) -> exp.Expr:
        """Parse what follows a keyword: a time column such as `ts` or `calls.ts`, nothing, or a length. A number with a
        unit is an INTERVAL; without one it stays a number (BIGINT time, or rows)."""
        if keyword == "GAPS":
            return exp.Boolean(this=True)
        if keyword == "WA":
            name = self._name("the time column")
            dotted = self._match(TokenType.DOT)
            return exp.Column(this=self._name("the time column"), table=name) if dotted else exp.Column(this=name)
        self._match(TokenType.INTERVAL)
        amount = self._take()
        if amount.token_type not in (TokenType.NUMBER, TokenType.STRING):
            raise self.script.error("a window needs a number here", amount.start, hint=_HOW)
        if not self._curr or not (is_name(self._curr) and is_unit(self._curr.text)):
            return exp.Literal(this=amount.text, is_string=amount.token_type == TokenType.STRING)
        unit = exp.var(self._take().text.upper())
        return self._placed(exp.Interval(this=exp.Literal.string(amount.text), unit=unit), amount)

    def _take(self) -> Token:
        """Return the next token and move past it; an error at the end of the statement."""
        if not self._curr:
            raise self._refused("the statement ends too early")
        self._advance()
        return self._prev

    def _name(self, what: str) -> exp.Identifier:
        """Parse a name; `what` describes it in the error."""
        if not self._curr or not is_name(self._curr):
            raise self._refused(f"expected {what}")
        self._advance()
        return self._identifier(self._prev.text, self._prev)

    def _call(self, name: str, arguments: Sequence[exp.Expr], first: Token) -> exp.Anonymous:
        return self._placed(exp.Anonymous(this=name, expressions=arguments), first)

    def _identifier(self, name: str, token: Token) -> exp.Identifier:
        return self._placed(exp.Identifier(this=name), token)

    def _placed(self, node: _Node, first: Token) -> _Node:
        """Return the node with the offset of its first token."""
        node.update_positions(first)
        return node

    def _refused(self, what: str, hint: str = "") -> QueryError:
        """Return a syntax error at the next token, or at the end of the statement."""
        offset = self._curr.start if self._curr else self._prev.end + 1
        return self.script.error(f"syntax error: {what}", offset, hint=hint or LOOK_AROUND)


def is_stream_name(tokens: Sequence[Token]) -> bool:
    """Return whether the first of the tokens can name a stream of FROM."""
    return bool(tokens) and is_name(tokens[0]) and not is_word(tokens[0], *_NO_STREAM)
