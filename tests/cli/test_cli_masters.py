"""Masters that are none, and a Java that is not there: said before Spark is started, and without a trace."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_case import calls, penstock, to_files

import penstock as penstock_package
from penstock.errors import ConfigError
from penstock.settings import Settings
from penstock.spark.embedded.java import find_java


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "busy.sql").write_text(calls() + to_files())
    return tmp_path


@pytest.mark.parametrize("master", ["foo", "local[", "local[zero]", "local[0]", "lokal[2]", "spark//host", "local[2"])
def test_a_master_that_is_none_is_refused_with_what_there_is(master: str, folder: Path) -> None:
    result = penstock("run", "busy.sql", "--master", master)
    assert result.exit_code == 1
    assert f"error: `{master}` is not a Spark master" in result.stderr
    assert "inline" in result.stderr
    assert "hint:" in result.stderr
    assert "starting Spark" not in result.stderr
    assert not (folder / ".penstock").exists()


@pytest.mark.parametrize(
    "master",
    ["inline", "local", "local[*]", "local[4]", "local[2,4]", "local[*,4]", "local-cluster[2,1,1024]", "yarn",
     "spark://a:7077,b:7077", "k8s://https://host:443"],
)  # fmt: skip
def test_the_masters_of_spark_are_taken(master: str) -> None:
    assert Settings(master=master).master == master


def test_a_wrong_java_home_is_named(folder: Path) -> None:
    command = [sys.executable, "-m", "penstock.cli.main", "run", "busy.sql", "--master", "local[1]"]
    here = str(Path(penstock_package.__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": here, "JAVA_HOME": str(folder / "no java")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "error: Spark cannot be started: JAVA_HOME is wrong" in done.stderr
    assert str(folder / "no java") in done.stderr
    assert "unset it" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_java_that_is_too_old_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "bin").mkdir()
    (folder / "bin" / "java").write_text("#!/bin/sh\n")
    (folder / "bin" / "java").chmod(0o755)
    (folder / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="11.0.2"\n')
    monkeypatch.setenv("JAVA_HOME", str(folder))
    with pytest.raises(ConfigError, match="needs Java 17") as caught:
        find_java()
    assert "that is Java 11" in caught.value.detail


def test_a_machine_without_java_is_told_how_to_get_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(ConfigError, match="there is no Java") as caught:
        find_java()
    assert "install Java 17" in caught.value.hint


def test_a_finished_checkpoint_says_so_without_starting_spark(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert penstock("run", "busy.sql", "--master", "inline").exit_code == 0
    monkeypatch.setenv("JAVA_HOME", str(folder / "no java"))  # Spark could not even be started
    again = penstock("run", "busy.sql", "--master", "local[1]")
    assert again.exit_code == 0, again.output
    assert "this query has finished; nothing was done" in again.stderr
    assert "starting Spark" not in again.stderr
