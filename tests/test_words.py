"""The words of the code: one name for one class or constant, and docstrings that begin with a verb."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from types import ModuleType

import pytest

import penstock

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
