"""The layout of penstock/ as a table of arrows, and the rules that hold for every file.

An arrow that is not in the table fails here: either the import is wrong, or the design changes and the table with it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import penstock

PACKAGE = Path(penstock.__file__).parent
MOST_LINES = 350

# What each top-level module of the base may import.
BASE: dict[str, set[str]] = {
    "errors": set(),
    "events": set(),
    "version": set(),
    "cores": set(),
    "scratch": set(),
    "user_code": set(),
    "expressions": set(),
    "paths": {"errors"},
    "config": {"errors", "paths"},
    "shown": set(),
    "type_names": {"errors", "expressions_text"},
    "schema": {"errors", "type_names"},
    "functions": {"errors"},
    "expressions_text": {"expressions", "functions"},
}

# A module that counts as part of the base although it lies in a folder: the scalar functions' table knows only errors.
IN_BASE = {"penstock.operators.functions": "functions"}

# What each folder may import, besides the base and itself.
FOLDERS: dict[str, set[str]] = {
    "progress": set(),
    "state": {"progress"},
    "operators": {"progress", "state"},
    "balance": {"progress", "state"},
    "plan": {"operators", "progress", "state"},
    "sql": {"operators", "progress", "plan"},
    "checkpoint": {"progress", "state"},
    "sources": {"progress", "plan"},
    "sinks": {"plan", "checkpoint"},
    "engine": {"operators", "progress", "state", "balance", "plan", "checkpoint", "sources", "sinks"},
    "runtime": {"operators", "progress", "state", "balance", "plan", "checkpoint", "sources", "sinks", "engine"},
}
FOLDERS["api"] = {*FOLDERS, "sql"}
FOLDERS["public"] = {"api"}  # penstock/__init__.py
FOLDERS["testing"] = set(FOLDERS) - {"runtime"}
FOLDERS["bench"] = set(FOLDERS)
FOLDERS["cli"] = set(FOLDERS)

# Where an arrow of the table is narrower than the folder: the only modules it may start from, or end at.
ONLY_FROM = {("api", "sql"): {"penstock.api.script", "penstock.api.sql_text"}}
ONLY_TO = {("sources", "plan"): {"penstock.plan.nodes"}, ("sinks", "plan"): {"penstock.plan.nodes"}}

# Who may import a library that must not spread.
LIBRARIES = {
    "pyspark": ("penstock.runtime.", "penstock.bench.spark_native"),
    "py4j": ("penstock.runtime.",),
    "sqlglot": ("penstock.sql.",),
}


@dataclass(frozen=True)
class Import:
    """`late`: inside a function, so that it runs only when that is called."""

    importer: str
    imported: str
    line: int
    late: bool

    def __str__(self) -> str:
        return f"{self.importer} imports {self.imported} (line {self.line})"


def modules(package: Path = PACKAGE) -> dict[str, Path]:
    names = {}
    for path in sorted(package.rglob("*.py")):
        parts = (package.name, *path.relative_to(package).with_suffix("").parts)
        names[".".join(parts).removesuffix(".__init__")] = path
    return names


def imports(package: Path = PACKAGE) -> list[Import]:
    known = modules(package)
    return [found for name, path in known.items() for found in imports_of(name, path, known)]


def imports_of(name: str, path: Path, known: dict[str, Path]) -> Iterator[Import]:
    """All imports of a file, those that only a type checker runs excepted."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {id(n) for block in ast.walk(tree) if _is_type_checking(block) for n in ast.walk(block)}
    late = {id(n) for function in ast.walk(tree) if _is_function(function) for n in ast.walk(function)}
    for node in ast.walk(tree):
        if id(node) not in skipped:
            for imported in _names(node, name, path, known):
                yield Import(name, imported, node.lineno, id(node) in late)  # type: ignore[attr-defined]


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def _is_function(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)


def _names(node: ast.AST, importer: str, path: Path, known: dict[str, Path]) -> list[str]:
    match node:
        case ast.Import(names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module, names, level):
            package = importer if path.name == "__init__.py" else importer.rpartition(".")[0]
            base = ".".join(package.split(".")[: len(package.split(".")) - level + 1]) if level else ""
            origin = ".".join(filter(None, [base, module]))
            submodules = [f"{origin}.{alias.name}" for alias in names]
            return [s if s in known else origin for s in submodules]
    return []


def place(module: str) -> tuple[str, str]:
    """("base", the module) or ("folder", its folder)."""
    if module in IN_BASE:
        return "base", IN_BASE[module]
    first = [*module.split("."), "public"][1]
    return ("base", first) if first in BASE else ("folder", first)


def complaint(found: Import) -> str | None:
    """What is wrong with an import; None if nothing is."""
    library = found.imported.partition(".")[0]
    if library in LIBRARIES:
        return None if f"{found.importer}.".startswith(LIBRARIES[library]) else f"{found}: {library} must not spread"
    if library != PACKAGE.name:
        return None
    (from_kind, start), (to_kind, end) = place(found.importer), place(found.imported)
    if from_kind == "base":
        return None if to_kind == "base" and end in BASE[start] | {start} else f"{found}: the base knows only the base"
    if to_kind == "base" or start == end:
        return None
    if end not in FOLDERS.get(start, set()):
        return f"{found}: {start} must not import {end}"
    allowed = found.importer in ONLY_FROM.get((start, end), {found.importer})
    allowed &= found.imported in ONLY_TO.get((start, end), {found.imported})
    return None if allowed else f"{found}: only some modules may"


def complaints(package: Path = PACKAGE) -> list[str]:
    return [text for found in imports(package) if (text := complaint(found))]


def test_every_folder_and_module_has_a_place_in_the_table() -> None:
    unknown = {place(name) for name in modules()} - {("base", n) for n in BASE} - {("folder", n) for n in FOLDERS}
    assert not unknown


def test_arrows_point_one_way() -> None:
    assert complaints() == []


def test_the_tables_have_no_cycles() -> None:
    for table in (BASE, FOLDERS):
        list(TopologicalSorter(table).static_order())


def module_graph(package: Path = PACKAGE) -> dict[str, set[str]]:
    known, graph = modules(package), {name: set[str]() for name in modules(package)}
    for found in imports(package):
        if found.imported in known and not found.late:
            graph[found.importer].add(found.imported)
    return graph


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    list(TopologicalSorter(module_graph()).static_order())


@pytest.mark.parametrize(
    ("file", "text", "wanted"),
    [
        ("operators/window.py", "from penstock.engine.loop import EpochLoop", "operators must not import engine"),
        ("state/hash.py", "from ..plan import nodes", "state must not import plan"),
        ("engine/loop.py", "def f():\n    import penstock.runtime.session", "engine must not import runtime"),
        ("api/read.py", "from penstock.sql import parse_script", "only some modules may"),
        ("sources/files.py", "from penstock.plan.subqueries import Query", "only some modules may"),
        ("errors.py", "from penstock import schema", "the base knows only the base"),
        ("operators/functions.py", "from penstock.operators.scalar import Scalar", "the base knows only the base"),
        ("testing/ways.py", "from penstock.runtime import session", "testing must not import runtime"),
        ("cli/run.py", "from pyspark import SparkContext", "pyspark must not spread"),
        ("plan/nodes.py", "import sqlglot.exp", "sqlglot must not spread"),
        ("somewhere/else_.py", "from penstock.api import read", "somewhere must not import api"),
    ],
)
def test_an_arrow_that_points_back_is_found(tmp_path: Path, file: str, text: str, wanted: str) -> None:
    for name in (file, "plan/nodes.py", "runtime/session.py"):
        (tmp_path / "penstock" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "penstock" / name).write_text("")
    (tmp_path / "penstock" / file).write_text(text)
    (found,) = complaints(tmp_path / "penstock")
    assert wanted in found


def test_a_circle_of_modules_is_found(tmp_path: Path) -> None:
    for name, other in (("a", "b"), ("b", "a")):
        (tmp_path / "penstock").mkdir(exist_ok=True)
        (tmp_path / "penstock" / f"{name}.py").write_text(f"from penstock import {other}")
    with pytest.raises(CycleError):
        list(TopologicalSorter(module_graph(tmp_path / "penstock")).static_order())


def test_no_file_is_too_long() -> None:
    files = [*modules().values(), *PACKAGE.with_name("tools").glob("*.py")]
    lengths = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES} == {}


def dangers(text: str) -> list[str]:
    """Ways in which data could become code: pickle and its kin, eval and exec, a shell."""
    found = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names):
                found += [a.name for a in names if a.name.partition(".")[0] in UNSAFE_MODULES]
            case ast.ImportFrom(module=str(module)):
                found += [module] if module.partition(".")[0] in UNSAFE_MODULES else []
            case ast.Call(func=ast.Name(id="eval" | "exec" as name)):
                found.append(name)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="os"), attr="system" | "popen" as name)):
                found.append(f"os.{name}")
            case ast.keyword(arg="shell", value=value) if not (isinstance(value, ast.Constant) and not value.value):
                found.append("shell")
    return found


UNSAFE_MODULES = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "marshal", "shelve", "joblib"}


def test_data_never_becomes_code() -> None:
    found = {name: dangers(path.read_text(encoding="utf-8")) for name, path in modules().items()}
    assert {name: what for name, what in found.items() if what} == {}


@pytest.mark.parametrize(
    "text",
    ["import pickle", "from pickle import loads", "eval('1')", "exec(x)", "run(x, shell=True)", "os.system('ls')"],
)
def test_a_danger_is_found(text: str) -> None:
    assert dangers(text)
