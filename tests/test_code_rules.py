"""Rules for the code of the product: no file is too long, data never becomes code, the engine reads no clock, no
exception is swallowed unseen, and no ability is guessed from the names of methods."""

from __future__ import annotations

import ast

import pytest

from tests.source_files import BENCH, HARNESS, PACKAGE, modules

MOST_LINES = 350


def test_no_file_is_too_long() -> None:
    folders = [modules(), modules(BENCH), modules(HARNESS)]
    files = [*(path for folder in folders for path in folder.values()), *PACKAGE.with_name("tools").glob("*.py")]
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
    files = modules() | modules(BENCH) | modules(HARNESS, "tests.support")
    found = {name: dangers(path.read_text(encoding="utf-8")) for name, path in files.items()}
    assert {name: what for name, what in found.items() if what} == {}


@pytest.mark.parametrize(
    "text",
    ["import pickle", "from pickle import loads", "eval('1')", "exec(x)", "run(x, shell=True)", "os.system('ls')"],
)
def test_a_danger_is_found(text: str) -> None:
    assert dangers(text)


CLOCKS = {"time", "monotonic", "perf_counter", "process_time", "sleep"}
CLOCKS |= {f"{name}_ns" for name in CLOCKS - {"sleep"}}


def clock_reads(text: str) -> list[str]:
    """Places that read the system's clock or wait for it, instead of using the clock that they were given."""
    found = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Attribute(value=ast.Name(id="time"), attr=str(name)) if name in CLOCKS:
                found.append(f"time.{name}")
            case ast.ImportFrom(module="time"):
                found.append("from time import")
            case ast.Import(names) if any(name.name == "time" for name in names):
                found.append("import time")
            case ast.Attribute(value=ast.Name(id="datetime"), attr="now" | "utcnow" | "today" as name):
                found.append(f"datetime.{name}")
    return found


def test_the_engine_reads_no_clock_but_the_one_it_is_given() -> None:
    files = {name: path for name, path in modules().items() if name.startswith("penstock.engine")}
    found = {name: clock_reads(path.read_text(encoding="utf-8")) for name, path in files.items()}
    assert {name: what for name, what in found.items() if what} == {}


@pytest.mark.parametrize(
    "text", ["time.time()", "f(time.perf_counter)", "from time import sleep", "import time as t", "datetime.now()"]
)
def test_a_clock_that_is_read_is_found(text: str) -> None:
    assert clock_reads(text)


BROAD = {"Exception", "BaseException"}


def swallowed(text: str) -> list[str]:
    """Places that catch every exception and neither raise one nor use the one they caught."""
    found = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.ExceptHandler(type=kind, name=name, body=body) if kind is None or _broad(kind):
                inside = [inner for statement in body for inner in ast.walk(statement)]
                raises = any(isinstance(inner, ast.Raise) for inner in inside)
                uses = any(isinstance(inner, ast.Name) and inner.id == name for inner in inside)
                found += [] if raises or uses else [f"line {node.lineno}: except"]
            case ast.Call(func=ast.Name(id="suppress") | ast.Attribute(attr="suppress"), args=kinds):
                found += [f"line {node.lineno}: suppress"] if any(map(_broad, kinds)) else []
    return found


def _broad(kind: ast.expr) -> bool:
    return any(isinstance(inner, ast.Name) and inner.id in BROAD for inner in ast.walk(kind))


def test_no_exception_is_swallowed_unseen() -> None:
    found = {name: swallowed(path.read_text(encoding="utf-8")) for name, path in modules().items()}
    assert {name: what for name, what in found.items() if what} == {}


@pytest.mark.parametrize(
    "text",
    [
        "with suppress(Exception):\n    f()",
        "with contextlib.suppress(OSError, BaseException):\n    f()",
        "try:\n    f()\nexcept Exception:\n    pass",
        "try:\n    f()\nexcept (OSError, Exception) as error:\n    g()",
        "try:\n    f()\nexcept:\n    g()",
    ],
)
def test_a_swallowed_exception_is_found(text: str) -> None:
    assert swallowed(text)


@pytest.mark.parametrize(
    "text",
    [
        "with suppress(OSError):\n    f()",
        "try:\n    f()\nexcept Exception as error:\n    log(error)",
        "try:\n    f()\nexcept BaseException:\n    g()\n    raise",
    ],
)
def test_an_exception_that_is_narrow_used_or_raised_again_is_none(text: str) -> None:
    assert swallowed(text) == []


def test_no_ability_is_guessed_from_the_names_of_methods() -> None:
    guessing = [name for name, path in modules().items() if "runtime_checkable" in path.read_text(encoding="utf-8")]
    assert guessing == []
