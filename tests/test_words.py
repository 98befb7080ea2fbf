"""The words of the code: one class name for one class, and docstrings that begin with a verb."""

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


def test_a_class_name_means_one_class(survey: ModuleType) -> None:
    assert survey.classes_defined_twice(TREES) == []


def test_docstrings_of_functions_begin_with_a_verb(survey: ModuleType) -> None:
    assert survey.noun_clauses(TREES) == []
