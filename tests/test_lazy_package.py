"""The package imports what is large when it is first used, and in process nothing of Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import penstock

HERE = str(Path(penstock.__file__).parent.parent)


def _modules_after(code: str, folder: Path) -> set[str]:
    script = f"import sys; sys.path.insert(0, {HERE!r})\n{code}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=folder, timeout=120)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_the_package_itself_imports_nothing_large(tmp_path: Path) -> None:
    loaded = _modules_after("import penstock.spark.embedded.embedded, penstock.cli.main", tmp_path)
    assert not loaded & {"pyarrow", "numpy", "duckdb", "pyspark", "sqlglot", "penstock.api.streams"}


def test_a_run_in_process_imports_nothing_of_spark(tmp_path: Path) -> None:
    code = "import penstock as ps; ps.read.calls(rows=10).to.memory().start(master='inline').wait()"
    loaded = _modules_after(code, tmp_path)
    assert "penstock.api.streams" in loaded
    assert not loaded & {"pyspark", "py4j"}


@pytest.mark.parametrize("name", penstock.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(penstock, name) is not None
    assert name in dir(penstock)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = penstock.no_such_name
