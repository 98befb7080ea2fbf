"""Every wrong use in this folder gets its answer: no trace, and what is wrong, where, and what to do.

PENSTOCK_REWRITE=1 rewrites the answers; one that lacks a part fails all the same.
"""

from __future__ import annotations

import os
import re
import shlex
import traceback
from pathlib import Path

import pytest
from typer.testing import CliRunner
from wrong_use import answer, faults, read_uses

import penstock as ps
from penstock.api.script import read_script
from penstock.cli.main import app
from penstock.errors import PenstockError

FOLDER = Path(__file__).parent
REWRITE = os.environ.get("PENSTOCK_REWRITE", "") not in ("", "0")
LEAST = 200

CALLS = "CREATE SOURCE calls (WATERMARK FOR ts AS ts) WITH (connector = 'calls', rows = 10);"
SOURCES = " ".join(
    [
        CALLS,
        CALLS.replace("calls (", "texts ("),
        "CREATE SOURCE live (WATERMARK FOR ts AS ts) WITH (connector = 'calls');",
        "CREATE SOURCE ticks (n BIGINT, v DOUBLE, WATERMARK FOR n AS n) WITH (connector = 'files', path = 'ticks');\n",
    ]
)
MODULES = {
    "fine.py": "import penstock as ps\nstream = ps.read.calls(rows=1)\nnumber = 3\n",
    "broken.py": "x = 1 / 0\n",
    "missing.py": "import no_such_library\n",
    "wrong.py": "import penstock as ps\nstream = ps.read.calls(rows=1)\nbusy = stream.where('durration > 1')\n",
}
SCRIPTS = {
    "fine.sql": f"{CALLS}\nSELECT ts FROM calls\n",
    "wrong.sql": f"{CALLS}\nSELECT tss FROM calls\n",
    "empty.sql": "",
    "latin.sql": "-- caf\xe9\nSELECT 1",
}


def script_answer(use: str) -> str:
    """The answer to a script; `SOURCES` stand in its first line."""
    try:
        for query in read_script(SOURCES + use).queries:
            query.ready.explain()
    except PenstockError as error:
        return _shown(error)
    return "no error"


def _shown(error: PenstockError) -> str:
    """The error under the name that users know it by."""
    kind = next(kind for kind in type(error).__mro__ if kind.__module__ == PenstockError.__module__)
    return f"{kind.__name__}: {error}"


def python_answer(use: str) -> str:
    """The answer to a few lines of Python, and the line that the interpreter shows with it."""
    columns = [("ts", "TIMESTAMP"), ("k", "BIGINT"), ("price", "DOUBLE"), ("kind", "VARCHAR")]
    sides = {name: ps.read.files("nowhere/*.csv", time="ts", schema=dict(columns), name=name) for name in ("a", "b")}
    numbers = ps.read.table([{"ts": n, "v": n} for n in range(3)], time="ts", name="numbers")
    try:
        exec(compile(use, "use", "exec"), {"ps": ps, "live": ps.read.calls(), "numbers": numbers, **sides})
    except PenstockError as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "use"]
        return f"{_shown(error)}\nat line {lines[0]}"
    return "no error"


def command_answer(use: str) -> str:
    """The answer on the screen, and the exit code."""
    result = CliRunner(env={"COLUMNS": "120", "TERM": "dumb"}).invoke(app, shlex.split(use))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return f"Traceback: {result.exception!r}"
    return f"{result.stderr.rstrip()}\nexit code {result.exit_code}"


ANSWERS = {"sql": script_answer, "python": python_answer, "cli": command_answer}
# Words that say where, if no caret does.
PLACES = {"sql": ("`", "script has"), "python": ("\nat line ",), "cli": ("`", "'--", "Error", ".sql", ".py")}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_MASTER", "inline")
    for name, text in {**MODULES, **SCRIPTS}.items():
        Path(name).write_bytes(text.encode("latin-1"))
    Path("file").write_text("not a folder")
    return tmp_path


FILES = sorted(FOLDER.glob("*.uses"))
USES = [pytest.param(path, use.title, id=f"{path.stem}: {use.title}") for path in FILES for use in read_uses(path).uses]


@pytest.mark.parametrize(("path", "title"), USES)
def test_a_wrong_use_is_answered(path: Path, title: str, tmp_path: Path) -> None:
    wrong = next(use for use in read_uses(path).uses if use.title == title)
    given = ANSWERS[path.stem](wrong.use).replace(str(tmp_path), "FOLDER")
    assert "no error" not in given
    assert "exit code 0" not in given
    assert faults(given, PLACES[path.stem]) == []
    if REWRITE:
        answer(path, title, given)
    else:
        assert given == wrong.answer


def test_there_are_many_of_them() -> None:
    assert len(USES) >= LEAST


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_files_are_written_as_rewriting_writes_them(path: Path) -> None:
    assert read_uses(path).text() == path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("given", "lacks"),
    [
        ("Traceback (most recent call last):\n  hint: none of `it`", "a trace"),
        ("KeyError: `k`\nhint: none", "a trace"),
        ("QueryError: unknown `x`", "what to do"),
        ("QueryError: it is wrong\n  hint:   do better", "where"),
    ],
)
def test_an_answer_that_lacks_something_is_found(given: str, lacks: str) -> None:
    assert any(lacks in fault for fault in faults(given, ("`",)))


def test_a_good_answer_lacks_nothing() -> None:
    good = script_answer("SELECT tss FROM calls")
    assert re.search(r"hint: +did you mean `ts`", good)
    assert faults(good, ()) == []
