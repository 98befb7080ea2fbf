"""The words of the code: one name for one class or constant, and docstrings that begin with a verb."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import penstock

# Words of an older vocabulary, as images or of several meanings; the glossary has those that replace them.
OLD = {
    "breathe", "crew", "dealt", "errand", "helm", "housing", "leisure", "mend", "mended", "mends", "nobody", "parcel",
    "shattered", "somebody", "unhurt", "verdict",
}  # fmt: skip
OLD_IN_NAMES = OLD | {"heard", "tells", "told"}
PACKAGE = Path(penstock.__file__).parent
TREES = {str(path): ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")}


@pytest.fixture
def survey(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(PACKAGE.with_name("tools")))
    return importlib.import_module("survey")


def test_a_name_means_one_class_or_constant(survey: ModuleType) -> None:
    assert survey.names_defined_twice(TREES) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("class Part: ...", "class Part: ..."),
        ("class _Part: ...", "class _Part: ..."),
        ("class Part: ...", "Part = int | str"),
        ("Part: TypeAlias = int", "Part = str"),
        ("MOST = 1", "LEAST, MOST = 0, 2"),
    ],
)
def test_a_name_of_two_things_is_found(survey: ModuleType, first: str, second: str) -> None:
    (found,) = survey.names_defined_twice({"a": ast.parse(first), "b": ast.parse(second)})
    assert found in ("Part", "_Part", "MOST")


def test_constants_of_one_module_may_have_the_names_of_others(survey: ModuleType) -> None:
    assert survey.names_defined_twice({"a": ast.parse("_MOST = 1"), "b": ast.parse("_MOST = 2")}) == []


def test_docstrings_of_functions_begin_with_a_verb(survey: ModuleType) -> None:
    assert survey.noun_clauses(TREES) == []


def words_of(text: str) -> set[str]:
    """Return the words of a text in small letters; names are cut at _ and at capital letters."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", text)}


def names_of(tree: ast.Module) -> Iterator[str]:
    """Yield what a module defines: classes, functions, parameters, variables and attributes."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name) | ast.FunctionDef(name) | ast.Name(name) | ast.Attribute(attr=name):
                yield name
            case ast.arg(name):
                yield name


def test_names_have_no_old_words() -> None:
    found = {path: OLD_IN_NAMES & words_of(" ".join(names_of(tree))) for path, tree in TREES.items()}
    assert {path: old for path, old in found.items() if old} == {}


def test_texts_have_no_old_words() -> None:
    top = PACKAGE.parent
    documents = [*top.glob("*.md"), *(top / "docs").glob("*.md"), *(top / "docs" / "how-to").glob("*.md")]
    files = [*map(Path, TREES), *documents]
    found = {str(path): OLD & words_of(path.read_text(encoding="utf-8")) for path in files}
    assert {path: old for path, old in found.items() if old} == {}


@pytest.mark.parametrize("text", ["def told(): ...", "x._told_keys = 1", "class ToldKeys: ...", "def f(crew): ..."])
def test_an_old_word_in_a_name_is_found(text: str) -> None:
    assert OLD_IN_NAMES & words_of(" ".join(names_of(ast.parse(text))))
