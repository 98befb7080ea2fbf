"""Offsets in the text of a script, and errors and warnings that show the line with a caret."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from penstock.errors import PenstockError, PenstockWarning, QueryError

_LINE_SHOWN = 100
LOOK_AROUND = "look for a missing or extra word, comma or parenthesis, at the caret or just before it"


class PlacedError(QueryError):
    """A query error whose detail shows its place in the text."""


@dataclass(frozen=True)
class ScriptText:
    """The text of a script. Places are offsets from its start. `warnings` collects the warnings found while
    planning."""

    text: str
    name: str = "script"
    warnings: list[PenstockWarning] = field(default_factory=list, compare=False)

    def show(self, offset: int) -> str:
        """Return line and column of the offset, and the line with a caret below it."""
        offset = max(0, min(offset, len(self.text)))
        start = self.text.rfind("\n", 0, offset) + 1
        end = self.text.find("\n", offset)
        line = self.text[start : end if end >= 0 else len(self.text)].rstrip("\r")
        number = self.text.count("\n", 0, offset) + 1
        return f"{self.name}, line {number}, column {offset - start + 1}\n{_with_caret(line, offset - start)}"

    def error(self, what: str, offset: int, *, detail: str = "", hint: str = "") -> QueryError:
        """Return an error at `offset`."""
        return PlacedError(what, detail=_joined(detail, self.show(offset)), hint=hint)

    def warn(self, warning: PenstockWarning, offset: int) -> None:
        """Record a warning at `offset`, once even if that part is planned several times."""
        placed = PenstockWarning(warning.what, detail=_joined(warning.detail, self.show(offset)), hint=warning.hint)
        if str(placed) not in map(str, self.warnings):
            self.warnings.append(placed)

    @contextmanager
    def placing(self, offset: Callable[[], int]) -> Iterator[None]:
        """Add the place to errors raised inside, unless they have one. `offset` is only called for an error."""
        try:
            yield
        except PlacedError:
            raise
        except PenstockError as error:
            kind = PlacedError if type(error) is QueryError else type(error)
            raise kind(error.what, detail=_joined(error.detail, self.show(offset())), hint=error.hint) from error


def _joined(detail: str, shown: str) -> str:
    return f"{detail.removesuffix('.')}; {shown}" if detail else shown


def _with_caret(line: str, column: int) -> str:
    """Return the part of the line around the column, and a caret below; tabs stay tabs so that the caret lines up."""
    first = max(0, column - _LINE_SHOWN // 2)
    shown = line[first : first + _LINE_SHOWN]
    indent = "".join("\t" if c == "\t" else " " for c in shown[: column - first])
    return f"    {shown}\n    {indent}^"
