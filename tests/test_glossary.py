"""The glossary: every word that it explains is a word of the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import penstock

GLOSSARY = Path(__file__).parents[1] / "docs" / "glossary.md"
PACKAGE = Path(penstock.__file__).parent
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def explained(text: str) -> list[str]:
    """Return the words that a glossary explains: those in bold at the beginning of a line. Planned ones are in
    italics."""
    entries = re.findall(r"^\*\*(.+?)\*\*:", text, re.MULTILINE)
    return [re.sub(r" \(.*\)", "", word.strip()) for entry in entries for word in entry.split(",")]


def words_of(tree: ast.Module) -> Iterator[str]:
    """Yield the docstrings and identifiers of a module as plain words, such as `low water mark` for `low_water_mark`
    and `range mark` for `RangeMark`."""
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED):
            yield plain(ast.get_docstring(node) or "")
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.arg(arg=name) | ast.Name(id=name):
                yield plain(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name))


def plain(text: str) -> str:
    return " ".join(re.findall(r"[a-z0-9]+", text.lower()))


@cache
def words_of_the_code() -> str:
    files = sorted(PACKAGE.rglob("*.py"))
    return "\n".join({words for file in files for words in words_of(ast.parse(file.read_text(encoding="utf-8")))})


def missing(text: str) -> list[str]:
    """Return the explained words that the code does not have, neither in the singular nor in the plural."""
    code = words_of_the_code()
    return [word for word in explained(text) if not re.search(rf"\b{plain(word)}(s|es)?\b", code)]


def test_every_word_of_the_glossary_is_a_word_of_the_code() -> None:
    assert missing(GLOSSARY.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("**flibbertigibbet, site**: A task.\n", ["flibbertigibbet"]),
        ("**low-water mark**: The minimum.\n**range mark**: Of a range.\n", []),
        ("*flibbertigibbet*: Planned.\n", []),
        ("**split (of a group)**: Two groups.\n", []),
    ],
)
def test_a_word_that_the_code_lacks_is_found(text: str, wanted: list[str]) -> None:
    assert missing(text) == wanted


def test_a_word_is_explained_once() -> None:
    words = re.findall(r"^\*\*(.+?)\*\*:", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(words) == sorted(set(words))
