"""Where in the text something stands, and errors that show it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from penstock.errors import PenstockError, PenstockWarning, QueryError

_LINE_SHOWN = 100
LOOK_AROUND = "look for a word, a comma or a parenthesis that is missing or too much, at the mark or just before it"


class PlacedError(QueryError):
    """A query error whose detail shows where in the text it is."""


@dataclass(frozen=True)
class ScriptText:
    """The text of a script. Places in it are offsets from its start. `warnings` are what was noted while reading it."""

    text: str
    name: str = "script"
    warnings: list[PenstockWarning] = field(default_factory=list, compare=False)

    def show(self, offset: int) -> str:
        """The place in words, and the line it is in with a caret under it."""
        offset = max(0, min(offset, len(self.text)))
        start = self.text.rfind("\n", 0, offset) + 1
        end = self.text.find("\n", offset)
        line = self.text[start : end if end >= 0 else len(self.text)].rstrip("\r")
        number = self.text.count("\n", 0, offset) + 1
        return f"{self.name}, line {number}, column {offset - start + 1}\n{_with_caret(line, offset - start)}"

    def error(self, what: str, offset: int, *, detail: str = "", hint: str = "") -> QueryError:
        """An error about what stands at `offset`."""
        return PlacedError(what, detail=_joined(detail, self.show(offset)), hint=hint)

    def warn(self, warning: PenstockWarning, offset: int) -> None:
        """Note a warning about what stands at `offset`; once, however often that is read."""
        placed = PenstockWarning(warning.what, detail=_joined(warning.detail, self.show(offset)), hint=warning.hint)
        if str(placed) not in map(str, self.warnings):
            self.warnings.append(placed)

    @contextmanager
    def placing(self, offset: Callable[[], int]) -> Iterator[None]:
        """Errors from inside say where they are; those that say so already stay as they are."""
        try:
            yield
        except PlacedError:
            raise
        except PenstockError as error:
            kind = PlacedError if type(error) is QueryError else type(error)
            raise kind(error.what, detail=_joined(error.detail, self.show(offset())), hint=error.hint) from error


def _joined(detail: str, shown: str) -> str:
    return f"{detail}; {shown}" if detail else shown


def _with_caret(line: str, column: int) -> str:
    """The part of the line around the column, and below it the caret; tabs stay tabs so that the two line up."""
    first = max(0, column - _LINE_SHOWN // 2)
    shown = line[first : first + _LINE_SHOWN]
    indent = "".join("\t" if c == "\t" else " " for c in shown[: column - first])
    return f"    {shown}\n    {indent}^"
