"""The words of the code: one class name for one class, and docstrings that begin with a verb."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import penstock

PACKAGE = Path(penstock.__file__).parent
TREES = {path.relative_to(PACKAGE): ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")}
NOUN_CLAUSE = re.compile(r"(The|A|An|What|Whether|How|Which|Where|When|Why|Who|Those|That|One|It|Of|In|All)\b")


def test_a_class_name_means_one_class() -> None:
    homes = defaultdict[str, list[Path]](list)
    for path, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(path)
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


def test_docstrings_of_functions_begin_with_a_verb() -> None:
    found = [
        f"{path}:{node.lineno} {text.splitlines()[0]}"
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and (text := ast.get_docstring(node)) and NOUN_CLAUSE.match(text)
    ]
    assert found == []
