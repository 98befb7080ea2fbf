"""The process of the JVM, with a shell in its place: what it says is kept and shown, and how it ended is told."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

import pytest

from penstock.errors import PenstockError
from penstock.spark.embedded.class_archive import ClassArchive
from penstock.spark.embedded.embedded import Embedded
from penstock.spark.embedded.jvm import Jvm
from penstock.spark.session import _context_on

CONNECT = r"""printf '\000\000\000\001\000\000\000\003abc' > "$_PYSPARK_DRIVER_CONN_INFO_PATH"; """


@contextmanager
def shell(script: str) -> Iterator[Jvm]:
    jvm = Jvm(["/bin/sh", "-c", script], os.environ)
    try:
        yield jvm
    finally:
        jvm.kill()


def _open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_the_driver_learns_where_to_connect() -> None:
    with shell(CONNECT + "cat") as jvm:
        assert jvm.connection() == (1, "abc")
        assert not jvm.dead


@pytest.mark.parametrize(
    ("end", "how"), [("exit 3", "ended with code 3"), ("kill -9 $$", "was killed by signal 9"), ("exit 0", "JVM ended")]
)
def test_one_that_dies_while_it_starts_is_told_with_its_last_words(
    end: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where these are read only after its death."""
    read = Jvm._read

    def late(jvm: Jvm, read_end: int) -> None:
        jvm.process.wait()
        time.sleep(0.3)
        read(jvm, read_end)

    monkeypatch.setattr(Jvm, "_read", late)
    words = "echo WARNING: Using incubator modules: x; echo no memory >&2; "
    with shell(words + end) as jvm, pytest.raises(PenstockError, match="Spark could not be started") as caught:
        jvm.connection()
    assert how in caught.value.detail
    assert caught.value.detail.endswith("no memory")
    assert "incubator" not in caught.value.detail
    assert "java -version" in caught.value.hint


def test_workers_that_outlive_it_and_keep_its_pipe_hold_nobody_up() -> None:
    with shell("echo gone >&2; sleep 30 & exit 1") as jvm:
        jvm.process.wait()
        assert "ended with code 1" in jvm.last_words()
        assert jvm._reader.is_alive()
        os.killpg(jvm.process.pid, 9)


def test_one_that_dies_when_the_driver_connects_is_told_with_its_last_words() -> None:
    with shell(CONNECT + "echo killed by somebody >&2; exit 9") as jvm:
        started = Embedded(jvm, {"spark.master": "local[2]", "spark.app.name": "test"}, ClassArchive())
        with pytest.raises(PenstockError, match=r"Spark could not be started on local\[2\]") as caught:
            _context_on(started)
    assert "ended with code 9" in caught.value.detail
    assert caught.value.detail.endswith("killed by somebody")
    assert caught.value.hint


@pytest.mark.parametrize("command", ["/no/such/java", "/etc/passwd"])
def test_a_command_that_cannot_be_run_is_named(command: str) -> None:
    before = _open_descriptors()
    for _ in range(3):
        with pytest.raises(PenstockError, match="Spark could not be started") as caught:
            Jvm([command], os.environ)
        assert command in caught.value.detail
        assert "java -version" in caught.value.hint
    assert _open_descriptors() <= before + 1  # the lock of the scratch folder


def test_what_it_says_while_it_starts_is_held_and_nothing_of_it_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = StringIO()
    monkeypatch.setattr(sys, "stderr", shown)
    with shell("for i in 1 2 3; do echo line $i; done; " + CONNECT + "read go; echo last; cat") as jvm:
        jvm.connection()
        while len(jvm._tail) < 3:
            time.sleep(0.01)
        assert shown.getvalue() == ""
        jvm.show_errors()
        assert shown.getvalue().splitlines() == ["line 1", "line 2", "line 3"]
        assert jvm.process.stdin is not None
        jvm.process.stdin.write(b"go\n")
        jvm.process.stdin.flush()
        jvm.end()
        jvm._reader.join()
    assert shown.getvalue().splitlines()[-1] == "last"


def test_it_ends_when_the_driver_closes_its_input() -> None:
    with shell("cat; exit 0") as jvm:
        jvm.end(30)
        assert jvm.process.returncode == 0


def test_one_that_does_not_end_in_time_is_killed() -> None:
    with shell("trap '' TERM; sleep 60") as jvm:
        jvm.end(0.1)
        assert jvm.process.returncode == -9
