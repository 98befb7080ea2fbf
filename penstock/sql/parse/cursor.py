"""Read tokens one by one, for the statements that sqlglot does not parse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sqlglot.tokens import Token, TokenType

from penstock.errors import QueryError
from penstock.sql.parse.place import LOOK_AROUND, ScriptText

Item = TypeVar("Item")
_PUNCTUATION = (TokenType.L_PAREN, TokenType.R_PAREN, TokenType.COMMA)


def is_word(token: Token | None, *words: str) -> bool:
    """Return whether the token is one of the words, unquoted, in any case. `words` are upper case."""
    return token is not None and not _is_quoted(token) and token.text.upper() in words


def _is_quoted(token: Token) -> bool:
    """Return whether the token is written in quotes: then it is longer in the text than its value.

    Punctuation is never quoted; a rewritten token may span more text than its own.
    """
    if token.token_type in _PUNCTUATION:
        return False
    return bool(token.end - token.start + 1 != len(token.text))


def is_name(token: Token) -> bool:
    """Return whether the token can be a name: a quoted identifier or a word."""
    if token.token_type == TokenType.IDENTIFIER:
        return True
    return not _is_quoted(token) and (token.text[:1].isalpha() or token.text[:1] == "_")


@dataclass
class Cursor:
    """A position in the tokens of one statement. Invariant: 0 <= at <= len(tokens)."""

    tokens: Sequence[Token]
    text: ScriptText
    at: int = 0

    @property
    def peek(self) -> Token | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    @property
    def offset(self) -> int:
        """Return the offset of the next token in the text, or of the end of the statement."""
        if (token := self.peek) is not None:
            return int(token.start)
        return int(self.tokens[-1].end) + 1 if self.tokens else 0

    def error(self, what: str, hint: str = "") -> QueryError:
        """Return a syntax error at the next token."""
        return self.text.error(f"syntax error: {what}", self.offset, hint=hint or LOOK_AROUND)

    def take(self) -> Token:
        """Return the next token and move past it; an error at the end of the statement."""
        token = self.peek
        if token is None:
            raise self.error("the statement ends too early")
        self.at += 1
        return token

    def skip(self, *words: str) -> bool:
        """Move past the words if they come next; return whether they did."""
        following = self.tokens[self.at : self.at + len(words)]
        if len(following) < len(words) or not all(map(is_word, following, words)):
            return False
        self.at += len(words)
        return True

    def expect(self, *words: str, hint: str = "") -> None:
        """Move past the words; an error if anything else comes next."""
        if not self.skip(*words):
            found = "the end of the statement" if self.peek is None else f"`{self.peek.text}`"
            raise self.error(f"expected `{' '.join(words)}`, found {found}", hint)

    def name(self, what: str) -> str:
        """Return the next token as a name; `what` describes the name in the error."""
        token = self.peek
        if token is None or not is_name(token):
            raise self.error(f"expected {what}")
        self.at += 1
        return str(token.text)

    def dotted_name(self, what: str) -> str:
        """Return a name, or several separated by dots, as one string."""
        names = [self.name(what)]
        while self.skip("."):
            names.append(self.name(what))
        return ".".join(names)

    def rest(self) -> Sequence[Token]:
        """Return all remaining tokens and move to the end."""
        left, self.at = self.tokens[self.at :], len(self.tokens)
        return left

    def until_comma(self, *, angles: bool = False) -> Sequence[Token]:
        """Return the tokens up to the comma or closing parenthesis that ends this list item.

        With `angles`, commas between `<` and `>` belong to the item.
        """
        start, depth = self.at, 0
        while (token := self.peek) is not None:
            depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
            if angles and not _is_quoted(token):
                depth += token.text.count("<") - token.text.count(">")
            if depth < 0 or (depth == 0 and token.token_type == TokenType.COMMA):
                break
            self.at += 1
        return self.tokens[start : self.at]

    def list_of(self, item: Callable[[Cursor], Item]) -> list[Item]:
        """Parse `( item, item, ... )` and return the items; the list may be empty."""
        self.expect("(")
        items: list[Item] = []
        while not self.skip(")"):
            if items:
                self.expect(",")
            items.append(item(self))
        return items

    def end(self) -> None:
        """Raise an error unless all tokens are read."""
        if self.peek is not None:
            raise self.error(f"unexpected `{self.peek.text}`")
