"""Files of cases: readable query tests in plain text.

What the file is about, in a few words.

=== A row exactly at the end of a window is in the next one
Why this is worth a test; may be left out.

--- query
CREATE SOURCE calls (ts TIMESTAMP, ..., WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH (connector = 'case');
SELECT ...

--- input
epoch 1
ts                  | k
1970-01-01 00:00:01 | a

Each of several sources has a separate input, `--- input calls`, and is declared WITH (..., input = 'calls').

--- plan, --- rows, --- late, --- bad or --- error
what is expected, which one command rewrites
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from penstock.errors import PenstockError

_TITLE, _SECTION = "=== ", "--- "
_INPUT = "input"
EXPECTED = ("plan", "rows", "late", "bad", "error")


class CaseError(PenstockError):
    """A file of cases cannot be parsed."""


@dataclass(frozen=True)
class Case:
    """One test. `given` is its text before the first expected section, which rewriting never changes. `inputs` are by
    name; the name may be empty for a single source."""

    title: str
    given: str
    query: str
    inputs: Mapping[str, str]
    expected: str


@dataclass(frozen=True)
class CaseFile:
    """The cases of a file. Invariant: their titles are different."""

    about: str
    cases: tuple[Case, ...]

    def text(self) -> str:
        """Return the content of the file."""
        parts = [self.about, *(f"{case.given}\n\n{case.expected}" for case in self.cases)]
        return "\n\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def read_cases(path: Path) -> CaseFile:
    """Parse the cases of a file."""
    about, *blocks = _blocks(path.read_text(encoding="utf-8").splitlines())
    cases = tuple(_case(block, path) for block in blocks)
    titles = [case.title for case in cases]
    if len(set(titles)) < len(titles) or not titles:
        raise CaseError(f"{path.name} needs cases with different titles", detail=", ".join(titles))
    return CaseFile("\n".join(about), cases)


def rewrite(path: Path, title: str, expected: str) -> None:
    """Replace the expected sections of a case in its file."""
    file = read_cases(path)
    cases = tuple(replace(case, expected=expected) if case.title == title else case for case in file.cases)
    path.write_text(replace(file, cases=cases).text(), encoding="utf-8")


def sections(parts: Iterable[tuple[str, str]]) -> str:
    """Format sections as text; empty ones are left out."""
    return "\n\n".join(f"{_SECTION}{name}\n{_trimmed(content)}" for name, content in parts if content.strip())


def _blocks(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yield the lines before the first title, then those of each case."""
    block: list[str] = []
    for line in lines:
        if line.startswith(_TITLE):
            yield block
            block = []
        block.append(line.rstrip())
    yield block


def _case(block: list[str], path: Path) -> Case:
    title = block[0].removeprefix(_TITLE).strip()
    starts = [i for i, line in enumerate(block) if line.startswith(_SECTION)]
    names = [block[i].removeprefix(_SECTION) for i in starts]
    unknown = [n for n in names if n not in ("query", _INPUT, *EXPECTED) and not n.startswith(f"{_INPUT} ")]
    if names[:1] != ["query"] or unknown or len(set(names)) < len(names):
        hint = "a case has a --- query, an --- input, and what is expected of them, in this order"
        raise CaseError(f"case `{title}` of {path.name} has unsuitable sections", detail=", ".join(names), hint=hint)
    content = {n: "\n".join(block[i + 1 : j]) for n, i, j in zip(names, starts, [*starts[1:], None], strict=True)}
    border = next((i for n, i in zip(names, starts, strict=True) if n in EXPECTED), len(block))
    given, expected = (_trimmed("\n".join(part)) for part in (block[:border], block[border:]))
    inputs = {n.removeprefix(_INPUT).strip(): text for n, text in content.items() if n.split()[0] == _INPUT}
    return Case(title, given, content["query"], inputs, expected)


def _trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines()).rstrip()
