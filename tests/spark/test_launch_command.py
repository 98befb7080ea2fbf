"""How the JVM is started: at once where nobody has configured Spark, and by Spark's own script where somebody has."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.spark.embedded.class_archive import ClassArchive
from penstock.spark.embedded.embedded import (
    _CONFIGURES,
    class_path,
    direct_command,
    properties_for,
    starts_directly,
    submit_command,
)
from penstock.spark.embedded.java import Java


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in _CONFIGURES:
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "jars").mkdir()
    for name in ("b.jar", "a.jar", "slf4j-api-2.jar"):
        (tmp_path / "jars" / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("master", "directly"),
    [
        ("local", True),
        ("local[2,4]", True),
        ("local-cluster[1,1,1]", False),
        ("spark://host:7077", False),
        ("yarn", False),
    ],
)
def test_only_a_spark_on_this_host_is_started_at_once(master: str, directly: bool, home: Path) -> None:
    assert starts_directly(home, properties_for(master, "name", None)) is directly


@pytest.mark.parametrize("name", _CONFIGURES)
def test_whoever_configures_spark_by_the_environment_is_obeyed(
    name: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "something")
    assert not starts_directly(home, properties_for("local[2]", "name", None))


def test_whoever_configures_spark_by_files_or_asks_for_jars_is_obeyed(home: Path) -> None:
    assert not starts_directly(home, properties_for("local[2]", "name", {"spark.jars.packages": "a:b:1"}))
    (home / "conf").mkdir()
    assert not starts_directly(home, properties_for("local[2]", "name", None))


def test_the_command_has_all_properties_and_one_order_of_jars(home: Path) -> None:
    properties = properties_for("local[2]", "name", {"spark.driver.memory": "1g"})
    command = direct_command(Java(Path("/java"), ""), home, properties, ClassArchive())
    assert command[0] == "/java"
    assert command[2] == os.pathsep.join(map(str, class_path(home)))
    assert [jar.name for jar in class_path(home)] == ["slf4j-api-2.jar", "a.jar", "b.jar"]
    assert "-Xmx1g" in command
    assert {"-Dspark.master=local[2]", "-Dspark.app.name=name", "-Dspark.ui.enabled=false"} <= set(command)


def test_the_script_is_given_all_properties(home: Path) -> None:
    command = submit_command(home, properties_for("spark://host:7077", "name", None))
    assert command[0] == str(home / "bin" / "spark-submit")
    assert "spark.master=spark://host:7077" in command
    assert command[-1] == "pyspark-shell"
