"""The types that users see: an editor completes the options, and mypy refuses a wrong name or value of one."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import penstock

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]


@cache
def errors() -> dict[str, dict[int, str]]:
    """Return the errors of mypy by file and line."""
    files = [str(FOLDER / name) for name in ("right_options.py", "wrong_options.py")]
    command = [sys.executable, "-m", "mypy", "--python-executable", sys.executable, "--no-error-summary", *files]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600).stdout
    found: dict[str, dict[int, str]] = {}
    for file, line, text in re.findall(r"^(.+?):(\d+): error: (.*)$", said, re.MULTILINE):
        found.setdefault(Path(file).name, {})[int(line)] = text
    return found


def test_the_package_says_that_it_has_types() -> None:
    assert (Path(penstock.__file__).parent / "py.typed").exists()


def test_right_options_are_accepted_and_results_are_arrow_tables() -> None:
    assert errors().get("right_options.py") is None


def test_a_wrong_name_or_value_of_an_option_is_a_type_error() -> None:
    lines = (FOLDER / "wrong_options.py").read_text().splitlines()
    marked = {number for number, line in enumerate(lines, 1) if line.endswith("# refused")}
    assert set(errors()["wrong_options.py"]) == marked
