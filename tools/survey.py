"""Counts what makes the code easy or hard to take over: `python tools/survey.py [checkout]`.

Files, lines, modules with one importer, names that mean two things, docstrings that do not begin with a verb,
places where the engine reads a clock, and the files that a row and a decision pass through.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

PARTS = {
    "product": ["penstock"],
    "bench": ["bench", "penstock/bench"],
    "test support": ["penstock/testing", "tests/support"],
    "tests": ["tests"],
}
_NOUN_CLAUSE = re.compile(r"(The|A|An|What|Whether|How|Which|Where|When|Why|Who|Those|That|One|It|Of|In|All)\b")
_FORMAT_VERSION = re.compile(r"checkpoint[./]format_\d+\b")
_CLOCK = re.compile(r"\btime\.(time|monotonic|perf_counter|process_time|time_ns|monotonic_ns)\b")

# Runs a query in process, and prints the files whose functions ran inside of functions with certain names.
_TRACED = """
import sys
import threading
import pyarrow as pa
import penstock as ps
rows = pa.table({"ts": list(range(400)), "k": [n % 7 for n in range(400)]})
query = ps.read.batches([rows.slice(n, 40) for n in range(0, 400, 40)], time="ts").group_by("k")
query = query.window(ps.tumbling(50)).agg(n=ps.count())
policy, *inside_of = sys.argv[1:]
files, depth = set(), 0
def watch(frame, event, argument):
    global depth
    code = frame.f_code
    if code.co_qualname in inside_of:
        depth += (event == "call") - (event == "return")
    if depth and event == "call" and code.co_name != "<module>" and "/penstock/" in code.co_filename:
        files.add(code.co_filename)
threading.setprofile(watch)
query.to.memory().start(master="inline", policy=policy, round_seconds=0.0).wait()
print("\\n".join(sorted(files)))
"""
_ROW = ("static", "InlineExecutor.run", "Outputs.publish")  # from the source to the published result
_DECISION = (
    "even",
    "Adaptation.observe",
    "Adaptation.apply_due_changes",
    "Adaptation._change",
)  # from statistics to a new directory


def survey(root: Path) -> list[tuple[str, str]]:
    """Return what is counted and the figure, one pair a line."""
    product = _modules(root)
    trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in product.items()}
    rows = [(f"{part}: files, lines", _size(root, part)) for part in PARTS]
    rows.append(("modules with one importer", str(len(_with_one_importer(root, trees)))))
    twice = names_defined_twice(trees)
    rows.append(("names of classes and constants defined twice", " ".join([str(len(twice)), *twice])))
    clauses, texts = noun_clauses(trees), _docstrings(trees)
    share = f"{len(clauses)} of {len(texts)}, {len(clauses) / len(texts):.0%}"
    rows.append(("docstrings that begin with a noun clause", share))
    rows.append(("places where the engine reads a clock", str(_clocks(root))))
    rows.append(("tables of pyarrow that mypy takes for Any", _untyped_tables(root)))
    rows.append(("files on the way of a row", str(len(_way(root, *_ROW)))))
    rows.append(("files on the way of a decision", str(len(_way(root, *_DECISION)))))
    return rows


def _modules(root: Path) -> dict[str, Path]:
    """Return the modules of the product, by their names: without benchmarks and test support."""
    left_out = [root / folder for part in ("bench", "test support") for folder in PARTS[part]]
    found = {}
    for path in sorted((root / "penstock").rglob("*.py")):
        if not any(path.is_relative_to(folder) for folder in left_out):
            found[".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")] = path
    return found


def _size(root: Path, part: str) -> str:
    nested = [folder for other, folders in PARTS.items() if other != part for folder in folders]
    files = [
        path
        for folder in PARTS[part]
        for path in (root / folder).rglob("*.py")
        if not any(path.is_relative_to(root / n) for n in nested if n.startswith(f"{folder}/"))
    ]
    return f"{len(files)}, {sum(len(path.read_text(encoding='utf-8').splitlines()) for path in files):,}"


def _with_one_importer(root: Path, product: dict[str, ast.Module]) -> list[str]:
    """Return the modules of the product that one file of the checkout imports, be it of the product, the benchmark or
    the tests."""
    importers = defaultdict[str, set[Path]](set)
    for path in (path for folder in ("penstock", "bench", "tests") for path in (root / folder).rglob("*.py")):
        for imported in _imported(ast.parse(path.read_text(encoding="utf-8")), product):
            importers[imported].add(path)
    return [name for name in product if len(importers[name]) == 1]


def _imported(tree: ast.Module, known: dict[str, ast.Module]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in known else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def names_defined_twice(trees: dict[str, ast.Module]) -> list[str]:
    """Return the names that several modules define: of classes, and of public aliases of types and constants.

    A reader of one version of the checkpoint format defines again what the other versions define.
    """
    defined = Counter(
        name for module, tree in trees.items() if not _FORMAT_VERSION.search(module) for name in _defined(tree)
    )
    return sorted(name for name, times in defined.items() if times > 1)


def _defined(tree: ast.Module) -> set[str]:
    """Return the classes, public aliases and public constants of a module. These begin with a capital letter."""
    found = set[str]()
    for node in tree.body:
        match node:
            case ast.ClassDef(name):
                found.add(name)
            case ast.Assign(targets):
                found |= {one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)}
            case ast.AnnAssign(ast.Name(name)):
                found.add(name)
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    return {name for name in found if name in classes or name[0].isupper()}


def noun_clauses(trees: dict[str, ast.Module]) -> list[str]:
    """Return the docstrings of functions that do not begin with a verb."""
    return [text for text in _docstrings(trees) if _NOUN_CLAUSE.match(text)]


def _docstrings(trees: dict[str, ast.Module]) -> list[str]:
    functions = [n for tree in trees.values() for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    return [text for function in functions if (text := ast.get_docstring(function))]


def _clocks(root: Path) -> int:
    return sum(
        len(_CLOCK.findall(path.read_text(encoding="utf-8"))) for path in (root / "penstock/engine").rglob("*.py")
    )


def _untyped_tables(root: Path) -> str:
    """Return whether mypy is told to skip pyarrow."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]
    skipped = [name for override in settings["overrides"] for name in override["module"]]
    return "all" if any(name.startswith("pyarrow") for name in skipped) else "none"


def _way(root: Path, *arguments: str) -> set[str]:
    """Return the files of the product that a small query passes through, inside of the named functions."""
    command = [sys.executable, "-c", _TRACED, *arguments]
    run = subprocess.run(command, cwd=root, env={"PYTHONPATH": str(root)}, capture_output=True, text=True, check=True)
    return set(run.stdout.split())


if __name__ == "__main__":
    for what, figure in survey(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1]):
        print(f"{what:45} {figure}")
