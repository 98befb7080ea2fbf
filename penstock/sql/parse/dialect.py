"""The SQL dialect: DuckDB's tokens and the parser of scripts, within limits on size and nesting."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokens import Token, TokenType

from penstock.errors import PenstockError, QueryError
from penstock.sql.parse.place import LOOK_AROUND, ScriptText
from penstock.sql.parse.query_parser import with_windows
from penstock.sql.parse.script_parser import ScriptParser
from penstock.sql.parse.tree import place_of

MAX_BYTES = 64 * 1024
MAX_NESTING = 200
_FRAMES_PER_LEVEL = 60  # an upper limit of Python's stack frames for one pair of parentheses

_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}
_CLOSED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/|\$\$.*?\$\$", re.DOTALL)
_LEFT_OPEN = re.compile(r"'|\"|/\*|\$\$")


class _Dialect(DuckDB):  # type: ignore[misc]
    Parser = ScriptParser


def tokens_of(text: ScriptText) -> list[Token]:
    """Return the tokens of the text; refuse text that is too long or nested too deeply, and unclosed quotes."""
    if len(text.text.encode("utf-8", "replace")) > MAX_BYTES:
        raise QueryError("the script is too long", detail=f"it has more than {MAX_BYTES} bytes", hint="split it in two")
    try:
        tokens: list[Token] = _Dialect().tokenize(text.text)
    except TokenError as error:
        raise _unclosed(text) from error
    _check_nesting(tokens, text)
    return with_windows(tokens)


def _unclosed(text: ScriptText) -> QueryError:
    """Return the error for a quote or comment that is not closed, at the place where it opens."""
    blanked = _CLOSED.sub(lambda found: " " * len(found[0]), text.text)
    found = _LEFT_OPEN.search(blanked)
    return text.error(
        "syntax error: a string, a quoted name or a comment is not closed",
        found.start() if found else len(blanked),
        hint="close what begins at the caret; write a quote inside a string or a name twice",
    )


def _check_nesting(tokens: Sequence[Token], text: ScriptText) -> None:
    depth = 0
    for token in tokens:
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if depth > MAX_NESTING:
            raise too_deep(text, token.start)


def too_deep(text: ScriptText, offset: int) -> QueryError:
    """Return the error for a query that is nested too deeply."""
    return text.error(
        f"the query is nested more than {MAX_NESTING} levels deep",
        offset,
        hint="split it with CREATE VIEW; a long chain of OR can be written as IN (...)",
    )


def tree_of(tokens: list[Token], text: ScriptText) -> exp.Expr:
    """Parse the tokens as one statement and return its tree."""
    parser = _Dialect().parser(error_message_context=0)
    parser.script = text
    try:
        trees = parser._parse(ScriptParser.statement, tokens, text.text)
    except PenstockError:
        raise
    except ParseError as error:
        raise _syntax_error(error, tokens, text) from error
    except RecursionError as error:
        raise too_deep(text, tokens[0].start) from error
    except Exception as error:  # sqlglot raises other errors for some malformed input
        raise text.error("syntax error: this is not a query", tokens[0].start, hint=LOOK_AROUND) from error
    if len(trees) != 1 or trees[0] is None:
        raise text.error("syntax error: one query was expected here", tokens[0].start, hint=LOOK_AROUND)
    _check_depth(trees[0], text)
    return trees[0]


def _check_depth(root: exp.Expr, text: ScriptText) -> None:
    """Refuse a tree that is too deep to walk; long chains such as `a + b + c` are deep without parentheses."""
    waiting = [(root, 0)]
    while waiting:
        node, depth = waiting.pop()
        if depth > MAX_NESTING:
            raise too_deep(text, place_of(root))
        deeper = depth if isinstance(node, exp.Paren) else depth + 1
        waiting.extend((child, deeper) for child in node.iter_expressions())


def _syntax_error(error: ParseError, tokens: Sequence[Token], text: ScriptText) -> QueryError:
    """Return the syntax error at the token where the parser stopped; sqlglot reports the line and column of its last
    character."""
    reported = error.errors[0] if error.errors else {}
    at = next((t for t in tokens if (t.line, t.col) == (reported.get("line"), reported.get("col"))), tokens[-1])
    return text.error(_what(str(reported.get("description") or ""), at.text), at.start, hint=LOOK_AROUND)


def _what(description: str, word: str) -> str:
    """Return the message for sqlglot's description of a syntax error near `word`."""
    if description.startswith("Expecting "):
        return f"syntax error: expected `{description.removeprefix('Expecting ')}` near `{word}`"
    if description.startswith(("Required keyword", "Expected")):
        return f"syntax error: something is missing near `{word}`"
    return f"syntax error at `{word}`"


@contextmanager
def room_for_nesting() -> Iterator[None]:
    """Raise Python's recursion limit for the allowed nesting while inside: the parser and all tree walks recurse."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, MAX_NESTING * _FRAMES_PER_LEVEL))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
