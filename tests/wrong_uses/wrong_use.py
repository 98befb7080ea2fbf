"""Files of wrong uses: each has a title, what a user does, and what the answer is, word by word."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

_USE = re.compile(r"=== (?P<title>.+)\n--- use\n(?P<use>.*?)\n--- answer\n(?P<answer>.*?)\n*", re.DOTALL)
_HINT = re.compile(r"^ *hint: +\S|^Try '.*' for help", re.MULTILINE)
_CARET = re.compile(r"line \d+, column \d+\n.*\n *\^")
_TRACE = re.compile(r"Traceback|^  File \"|^[A-Za-z]*(?:Error|Exception|Interrupt): .*\n(?!  )", re.MULTILINE)


@dataclass(frozen=True)
class WrongUse:
    title: str
    use: str
    answer: str

    def text(self) -> str:
        return f"=== {self.title}\n--- use\n{self.use}\n--- answer\n{self.answer}\n"


@dataclass(frozen=True)
class WrongUses:
    """A file: some words at its head, and the uses. Invariant: titles are different."""

    head: str
    uses: tuple[WrongUse, ...]

    def text(self) -> str:
        return "\n".join([f"{self.head}\n", *(use.text() for use in self.uses)])

    def answered(self, title: str, answer: str) -> WrongUses:
        return replace(self, uses=tuple(replace(u, answer=answer) if u.title == title else u for u in self.uses))


def read_uses(path: Path) -> WrongUses:
    head, *parts = re.split(r"^(?==== )", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    found = [_USE.fullmatch(part) for part in parts]
    assert all(found), "a use has a title, `--- use` and `--- answer`"
    uses = tuple(WrongUse(**match.groupdict()) for match in found if match is not None)
    assert len({use.title for use in uses}) == len(uses), "two uses have one title"
    return WrongUses(head.strip(), uses)


def answer(path: Path, title: str, given: str) -> None:
    """Write a new answer into a file."""
    path.write_text(read_uses(path).answered(title, given).text(), encoding="utf-8")


def faults(given: str, where: Iterable[str]) -> list[str]:
    """What an answer lacks: no trace, what to do, and where: a caret, or one of these words."""
    found = []
    if _TRACE.search(given):
        found.append("it is a trace, or an error without its three parts")
    if not _HINT.search(given):
        found.append("it does not say what to do")
    if not _CARET.search(given) and not any(word in given for word in where):
        found.append("it does not say where")
    return found
