"""The class archive of Spark: written once, used if it is intact and the user's own, and never in the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.spark.embedded.class_archive import SWITCH, class_archive
from penstock.spark.embedded.java import Java

JAVA = Java(Path("/usr/bin/java"), 'JAVA_VERSION="17.0.1"')


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(SWITCH, "write")
    jar = tmp_path / "spark.jar"
    jar.write_bytes(b"classes")
    return [jar]


def _written(jars: list[Path], content: bytes = b"all classes") -> Path:
    """What a JVM writes when it ends, under its final name."""
    archive = class_archive(JAVA, jars)
    assert archive.draft is not None
    assert f"-XX:ArchiveClassesAtExit={archive.draft}" in archive.options()
    archive.draft.write_bytes(content)
    archive.publish()
    assert not archive.draft.exists()
    found = class_archive(JAVA, jars).path
    assert found is not None
    return found


def test_the_first_spark_writes_it_and_later_ones_use_it(jars: list[Path]) -> None:
    path = _written(jars)
    assert path.read_bytes() == b"all classes"
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert f"-XX:SharedArchiveFile={path}" in class_archive(JAVA, jars).options()


@pytest.mark.parametrize("damage", [b"", b"all cla", b"all clAsses", b"all classes and more"])
def test_one_that_is_damaged_is_removed_and_written_again(damage: bytes, jars: list[Path]) -> None:
    path = _written(jars)
    path.write_bytes(damage)
    again = class_archive(JAVA, jars)
    assert again.path is None
    assert not path.exists()


def test_another_java_or_another_jar_has_another_one(jars: list[Path]) -> None:
    _written(jars)
    assert class_archive(Java(JAVA.binary, 'JAVA_VERSION="21"'), jars).path is None
    jars[0].write_bytes(b"other classes")
    assert class_archive(JAVA, jars).path is None


def test_a_link_to_elsewhere_is_not_used(jars: list[Path], tmp_path: Path) -> None:
    path = _written(jars)
    elsewhere = path.rename(tmp_path / "elsewhere.jsa")
    path.symlink_to(elsewhere)
    assert class_archive(JAVA, jars).path is None
    assert elsewhere.exists()


def test_a_cache_that_cannot_be_written_means_no_archive(
    jars: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert class_archive(JAVA, jars).options() == []


def test_only_who_asks_for_it_writes_one(jars: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SWITCH)
    assert class_archive(JAVA, jars).options() == []


def test_it_can_be_switched_off(jars: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    _written(jars)
    monkeypatch.setenv(SWITCH, "off")
    assert class_archive(JAVA, jars).options() == []
