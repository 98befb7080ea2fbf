"""Every case under tests/cases: as written, in random ways, and against DuckDB. PENSTOCK_REWRITE=1 rewrites the files.

Rewriting takes over plans, epochs and messages, but neither a wrong answer nor wrong late rows: those are checked all
the same, by DuckDB and by the words of the rule.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from tests.support.amounts import random_cases
from tests.support.cases.checks import (
    Case,
    check_any_way,
    check_batch_answer,
    difference,
    expected_text,
    read_cases,
    rewrite,
    run_case,
)

FOLDER = Path(__file__).parent / "cases"
REWRITE = os.environ.get("PENSTOCK_REWRITE", "") not in ("", "0")
WAYS = random_cases(6)

CASES = [
    pytest.param(path, case, id=f"{path.stem}: {case.title}")
    for path in sorted(FOLDER.glob("*.case"))
    for case in read_cases(path).cases
]


@pytest.mark.parametrize(("path", "case"), CASES)
def test_case(path: Path, case: Case, random: Random, tmp_path: Path) -> None:
    outcome = run_case(case, tmp_path / "written")
    if not REWRITE and (found := difference(case, outcome)):
        pytest.fail(found, pytrace=False)
    check_batch_answer(case, outcome)
    for n in WAYS:
        check_any_way(case, outcome, tmp_path / f"way{n}", random)
    if REWRITE:
        rewrite(path, case.title, expected_text(outcome))


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.case")), ids=lambda path: path.stem)
def test_files_are_written_as_rewriting_writes_them(path: Path) -> None:
    assert read_cases(path).text() == path.read_text(encoding="utf-8")
