"""The layout of penstock/ and of its benchmark as tables of arrows.

An arrow that is not in the table fails here: either the import is wrong, or the design changes and the table with it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.source_files import BENCH, HARNESS, PACKAGE, modules

# What each part of the base may import. Everything else may import all of the base.
BASE: dict[str, set[str]] = {
    "arrow": set(),
    "errors": set(),
    "events": set(),
    "clock": set(),
    "version": set(),
    "scratch": set(),
    "user_code": {"errors"},
    "shown": {"arrow"},
    "paths": {"errors"},
    "declared": {"errors"},
    "settings": {"declared", "errors", "paths"},
    "option_text": {"declared", "errors", "settings", "units"},
    "given": {"declared", "errors", "option_text", "settings", "units"},
    "units": {"errors"},
    "expr": {"errors"},
    "type_names": {"arrow", "errors", "expr"},
    "types": {"arrow", "errors", "type_names"},
}

# What each room may import, besides the base and itself. A room is a folder without the folders in it, or a module
# that is named here: one that puts the rooms below its folder together.
ROOMS: dict[str, set[str]] = {
    "kernels": set(),
    "expr.evaluate": {"kernels"},
    "progress": set(),
    "state": {"kernels", "progress"},
    "operators.aggregates": {"kernels", "progress"},
    "operators": {"expr.evaluate", "kernels", "operators.aggregates", "progress", "state"},
    "balance": {"state"},
    "balance.intake": {"progress"},
    "balance.policies": {"balance", "state"},
    "balance.controller": {"balance", "balance.policies", "state"},
}
_OPERATOR = {"expr.evaluate", "kernels", "operators", "operators.aggregates", "progress", "state"}
ROOMS["operators.window"] = ROOMS["operators.theta_join"] = _OPERATOR
ROOMS["operators.session"] = {*_OPERATOR, "operators.window"}
ROOMS["operators.band_join"] = {*_OPERATOR, "operators.theta_join"}
_OPERATORS = {room for room in ROOMS if room.startswith("operators")}

ROOMS["plan"] = {"expr.evaluate", "operators", "operators.window", "progress"}
ROOMS["plan.passes"] = {*_OPERATORS, "plan", "progress"}
ROOMS["plan.compile"] = {*_OPERATORS, "expr.evaluate", "plan", "plan.passes", "state"}
ROOMS["plan.explain"] = {*_OPERATORS, "plan", "plan.compile", "progress"}

ROOMS["sql.parse"] = set()
ROOMS["sql.names"] = {"plan", "sql.parse"}
_PLANNING = {"operators", "operators.window", "plan", "plan.compile", "sql.names", "sql.parse"}
ROOMS["sql.streams"] = _PLANNING
ROOMS["sql.joins"] = {*_PLANNING, "sql.streams"}
ROOMS["sql.select"] = {*_PLANNING, "sql.joins", "sql.streams"}
ROOMS["sql"] = {*_PLANNING, "expr.evaluate", "progress", "sql.select", "sql.streams"}
_INSIDE_SQL = {room for room in ROOMS if room.startswith("sql.")}

ROOMS["storage"] = {"state"}
ROOMS["checkpoint"] = {"progress", "state", "storage"}
ROOMS["storage.cache"] = {"checkpoint", "state", "storage"}
ROOMS["control"] = set()

ROOMS["connectors"] = {"plan", "progress"}
ROOMS["connectors.files"] = {"connectors", "progress"}
ROOMS["connectors.generator"] = {"connectors", "kernels", "progress"}
ROOMS["connectors.files.csv"] = ROOMS["connectors.files.json"] = {"connectors", "connectors.files"}
ROOMS["connectors.files.cuts"] = {"connectors.files", "connectors.files.csv"}
ROOMS["connectors.files.reader"] = {"connectors", "connectors.files", "connectors.files.cuts"}
ROOMS["connectors.files.source"] = {
    *(f"connectors.files{below}" for below in ("", ".csv", ".json", ".cuts", ".reader")),
    "connectors",
}
ROOMS["connectors.sinks"] = {"checkpoint", "plan", "state", "storage"}

ROOMS["observe"] = set()

_STATE = {"operators", "plan", "progress", "state"}
ROOMS["engine.wire"] = {*_STATE, "balance", "connectors"}
ROOMS["engine"] = {*_STATE, "engine.wire"}
_TASK = {*_STATE, "engine", "engine.wire", "expr.evaluate", "kernels", "storage"}
ROOMS["engine.task.exchange"] = {*_TASK, "checkpoint", "connectors.sinks", "operators.window"}
ROOMS["engine.task.site"] = {*_TASK, "balance", "checkpoint", "engine.task.exchange", "storage.cache"}
ROOMS["engine.task"] = {*_TASK, "connectors", "engine.task.exchange", "engine.task.site"}
ROOMS["engine.driver"] = set(ROOMS) - {"observe", "sql"} - _INSIDE_SQL

_ENGINE = {"connectors", "engine.driver", "engine.task", "engine.wire", "plan", "state", "storage"}
ROOMS["spark"] = {"storage"}
ROOMS["spark.embedded"] = set()
ROOMS["spark.session"] = {"spark", "spark.embedded"}
ROOMS["spark.source"] = {"connectors"}
ROOMS["spark.workers"] = {*_ENGINE, "spark"}
ROOMS["spark.jobs"] = {*_ENGINE, "spark", "spark.session", "spark.source", "spark.workers"}
ROOMS["spark.choice"] = {*_ENGINE, *(f"spark{below}" for below in ("", ".jobs", ".session", ".workers"))}
ROOMS["spark.prepare"] = {"spark.embedded", "spark.session", "spark.workers"}

ROOMS["api"] = set(ROOMS) - _INSIDE_SQL
ROOMS["public"] = {"api"}  # penstock/__init__.py
ROOMS["testing"] = {room for room in set(ROOMS) - _INSIDE_SQL if not room.startswith("spark")}
ROOMS["cli"] = set(ROOMS) - _INSIDE_SQL

# Where an arrow of the table is narrower than the room: the only modules it may start from, or end at.
ONLY_FROM = {("api", "sql"): {"penstock.api.script", "penstock.api.sql_text"}}
ONLY_TO = {("connectors", "plan"): {"penstock.plan.logical"}, ("connectors.sinks", "plan"): {"penstock.plan.logical"}}

# The same for the benchmark, which may import all of the product; the product never imports it.
BENCH_ROOMS: dict[str, set[str]] = {
    "workload": set(),
    "profile": set(),
    "rows": {"workload"},
    "workloads": {"rows", "workload"},
    "system": {"profile", "workload"},
    "check": {"rows", "system", "workload"},
    "flink": {"rows", "system", "workload", "workloads"},
    "systems": {"check", "profile", "rows", "system", "workload"},
    "run": {"check", "profile", "public", "rows", "system", "workload", "workloads"},
    "large_queries": set(),
    "large_state": {"large_queries"},
    "soak": {"run"},
    "report": {"flink", "profile", "run", "workloads"},
    "order": {"report", "rows"},
    "public": set(),  # penstock_bench/__init__.py
}
BENCH_ROOMS["experiments"] = set(BENCH_ROOMS) - {"order", "soak"}
BENCH_ROOMS["adapt"] = {*BENCH_ROOMS["experiments"], "experiments"}
BENCH_ROOMS["peers"] = {*BENCH_ROOMS["experiments"], "experiments"}
BENCH_ROOMS["overflow"] = {*BENCH_ROOMS["adapt"], "adapt"}
BENCH_ROOMS["experiments.by_name"] = {"adapt", "experiments", "overflow", "peers"}
BENCH_ROOMS["cli"] = set(BENCH_ROOMS)

# Who may import a library that must not spread.
LIBRARIES = {
    "matplotlib": ("penstock_bench.",),
    "penstock_bench": ("penstock_bench.",),
    "pyspark": ("penstock.spark.", "penstock_bench.systems.spark", "penstock_bench.peers.spark_join"),
    "py4j": ("penstock.spark.",),
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
    """Return ("base", its part) or ("room", the room): the longest name of the tables that the module begins with."""
    package, _, name = module.partition(".")
    base, rooms = tables_of(package)
    name = name or "public"
    while "." in name and name not in base and name not in rooms:
        name = name.rpartition(".")[0]
    return ("base" if name in base else "room", name)


def tables_of(package: str) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Return the base of a package and its rooms."""
    return ({}, BENCH_ROOMS) if package == BENCH.name else (BASE, ROOMS)


def complaint(found: Import) -> str | None:
    """What is wrong with an import; None if nothing is."""
    package, library = found.importer.partition(".")[0], found.imported.partition(".")[0]
    if library in LIBRARIES and not f"{found.importer}.".startswith(LIBRARIES[library]):
        return f"{found}: {library} must not spread"
    if library == "tests":
        return f"{found}: the product must not import its tests"
    if library != package:
        return None
    (from_kind, start), (to_kind, end) = place(found.importer), place(found.imported)
    if from_kind == "base":
        return None if to_kind == "base" and end in BASE[start] | {start} else f"{found}: the base knows only the base"
    if to_kind == "base" or start == end:
        return None
    if end not in tables_of(package)[1].get(start, set()):
        return f"{found}: {start} must not import {end}"
    allowed = found.importer in ONLY_FROM.get((start, end), {found.importer})
    allowed &= found.imported in ONLY_TO.get((start, end), {found.imported})
    return None if allowed else f"{found}: only some modules may"


def complaints(package: Path = PACKAGE) -> list[str]:
    return [text for found in imports(package) if (text := complaint(found))]


def test_every_module_has_a_place_in_the_tables() -> None:
    assert {place(name)[1] for name in modules()} == {*BASE, *ROOMS}
    assert {place(name)[1] for name in modules(BENCH)} == {*BENCH_ROOMS}


def test_arrows_point_one_way() -> None:
    assert complaints() == []
    assert complaints(BENCH) == []


def test_the_harness_imports_what_the_kit_may_and_no_tests() -> None:
    known = modules(HARNESS, "tests.support")
    found = [i for name, path in known.items() for i in imports_of(name, path, known | modules())]
    assert [str(i) for i in found if not _may_be_in_the_harness(i.imported)] == []


def _may_be_in_the_harness(imported: str) -> bool:
    match imported.split("."):
        case ["penstock", *_]:
            return place(imported)[1] in {*BASE, *ROOMS["testing"], "testing", "public"}
        case ["tests", *below]:
            return below[:1] == ["support"]
    return imported.partition(".")[0] not in LIBRARIES


def test_the_tables_have_no_cycles() -> None:
    for table in (BASE, ROOMS, BENCH_ROOMS):
        list(TopologicalSorter(table).static_order())


def module_graph(package: Path = PACKAGE) -> dict[str, set[str]]:
    known, graph = modules(package), {name: set[str]() for name in modules(package)}
    for found in imports(package):
        if found.imported in known and not found.late:
            graph[found.importer].add(found.imported)
    return graph


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    for package in (PACKAGE, BENCH):
        list(TopologicalSorter(module_graph(package)).static_order())


@pytest.mark.parametrize(
    ("file", "text", "wanted"),
    [
        ("operators/top.py", "from penstock.engine.driver.loop import A", "operators must not import engine.driver"),
        ("state/runs.py", "from ..plan import logical", "state must not import plan"),
        ("engine/wire/job.py", "from penstock.engine.task import level", "engine.wire must not import engine.task"),
        ("engine/driver/loop.py", "def f():\n    import penstock.spark.session", "must not import spark.session"),
        ("spark/workers/pool.py", "from penstock.spark.choice import A", "spark.workers must not import spark.choice"),
        ("api/read.py", "from penstock.sql import parse_script", "only some modules may"),
        ("api/script.py", "from penstock.sql.parse.place import A", "api must not import sql.parse"),
        ("sql/names/scope.py", "from penstock.sql.joins.unit import A", "sql.names must not import sql.joins"),
        ("connectors/memory.py", "from penstock.plan.program import Query", "only some modules may"),
        ("errors.py", "from penstock import types", "the base knows only the base"),
        ("expr/functions.py", "from penstock.expr.evaluate.scalar import Scalar", "the base knows only the base"),
        ("testing/ways.py", "from penstock.spark import session", "testing must not import spark"),
        ("cli/run.py", "from pyspark import SparkContext", "pyspark must not spread"),
        ("cli/main.py", "def f():\n    import penstock_bench.cli.command", "penstock_bench must not spread"),
        ("plan/logical.py", "import sqlglot.exp", "sqlglot must not spread"),
        ("testing/ways.py", "from tests.support import crashes", "the product must not import its tests"),
        ("somewhere/else_.py", "from penstock.api import read", "somewhere must not import api"),
    ],
)
def test_an_arrow_that_points_back_is_found(tmp_path: Path, file: str, text: str, wanted: str) -> None:
    for name in (file, "plan/logical.py", "spark/session.py", "engine/task/level.py"):
        (tmp_path / "penstock" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "penstock" / name).write_text("")
    (tmp_path / "penstock" / file).write_text(text)
    (found,) = complaints(tmp_path / "penstock")
    assert wanted in found


def test_an_arrow_of_the_benchmark_that_points_back_is_found(tmp_path: Path) -> None:
    (tmp_path / BENCH.name / "rows").mkdir(parents=True)
    (tmp_path / BENCH.name / "rows" / "data.py").write_text("from penstock_bench.report.page import A\nimport penstock")
    (found,) = complaints(tmp_path / BENCH.name)
    assert "rows must not import report" in found


def test_a_circle_of_modules_is_found(tmp_path: Path) -> None:
    for name, other in (("a", "b"), ("b", "a")):
        (tmp_path / "penstock").mkdir(exist_ok=True)
        (tmp_path / "penstock" / f"{name}.py").write_text(f"from penstock import {other}")
    with pytest.raises(CycleError):
        list(TopologicalSorter(module_graph(tmp_path / "penstock")).static_order())
