"""`overflow-peers`: what is made of recorded runs, how an ending is named, and what the watchdog sees."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from rich.console import Console

from penstock_bench.check.digest import Digest
from penstock_bench.experiments.report import as_tables
from penstock_bench.peers import flink_join, overflow_peers, peers, spark_join
from penstock_bench.peers.ending import Ending, ending, error_in
from penstock_bench.peers.memory import held_by, summed
from penstock_bench.peers.peers import PEERS, Tried
from penstock_bench.peers.rows import prepared
from penstock_bench.peers.scale import FULL, QUICK, STREAMS
from penstock_bench.peers.stores import IN_ROCKSDB, ON_HEAP
from penstock_bench.peers.texts import answer, found
from penstock_bench.peers.told import tell, told
from penstock_bench.peers.watch import Command, Progress, Watched, watch

SMALL = replace(QUICK, rows=600, files=3, limit=30.0, stall=20.0)
SEEN = Watched(40.0, 4_680_000, 0, "", 600_000_000, 790_000_000, (200_000_000, 300_000_000))
RIGHT = Ending("finished", "finished, equal to the batch answer")
ROWS = FULL.all_rows

SMAPS = """\
7f00-7f10 r--s 00000000 fe:00 12 /data/rows/a/000.parquet
Size:                900 kB
Rss:                 900 kB
Pss:                 900 kB
7f20-7f30 rw-p 00000000 00:00 0
Rss:                 100 kB
Pss:                  60 kB
Pss_Dirty:            60 kB
7f40-7f50 r--s 00000000 fe:00 13 /data/run/checkpoint/runs/1.arrow
Rss:                  30 kB
Pss:                  20 kB
VmFlags: rd sh
"""


def tried() -> list[Tried]:
    """Runs of all systems: three finished, one died, one stalled, one was too slow."""
    dead, stalled = replace(SEEN, rows=ROWS // 4, code=1), replace(SEEN, rows=ROWS // 2, ended="stalled")
    slow = replace(SEEN, seconds=240.4, rows=ROWS // 10, ended="slow")
    return [
        Tried(PEERS[0], RIGHT, 40.0, ROWS, SEEN, FULL.results),
        Tried(PEERS[1], RIGHT, 30.0, ROWS, SEEN, FULL.results),
        Tried(PEERS[2], ending(dead, ROWS, 90, "OutOfMemoryError", None), 30.0, dead.rows, dead),
        Tried(PEERS[3], ending(stalled, ROWS, 90, None, None), 100.0, stalled.rows, stalled),
        Tried(PEERS[4], ending(slow, ROWS, 90, None, None), 240.4, slow.rows, slow),
        Tried(PEERS[5], RIGHT, 200.0, ROWS, SEEN, FULL.results),
    ]


def test_the_state_is_ten_times_the_memory() -> None:
    assert 10.0 <= FULL.state / FULL.memory < 10.2


def test_a_user_sees_how_each_system_ended() -> None:
    console = Console(width=160, file=StringIO(), force_terminal=False)
    console.print(as_tables([(overflow_peers.OVERFLOW_PEERS, overflow_peers.finding(tried(), FULL))]))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    for line in (
        "penstock │ 117,000 │ 40.0 │ 4,680,000 │ 600 │ 790 │ finished, equal to the batch answer",
        "spark, state on the heap │ 39,000 │ 30.0 │ 1,170,000 │ 600 │ 790 │ died at 25 %: OutOfMemoryError",
        "spark, RocksDB │ 23,400 │ 100.0 │ 2,340,000 │ 600 │ 790 │ stalled at 50 %: no progress for 90 s",
        "flink, RocksDB, interval joins │ 1,947 │ 240.4 │ 468,000 │ 600 │ 790 │ too slow: 10 % done in 240 s",
        "Penstock finished with the batch answer: 1.00, at least 1.00 times: reached",
        "what a worker of Penstock took beyond an idle one, of its memory: 1.00, at most 1.20 times: reached",
    ):
        assert line in " ".join(shown.split())


def test_penstock_must_finish_within_its_memory() -> None:
    good = tried()
    assert overflow_peers.finding(good, FULL).holds
    large = replace(good[0], seen=replace(SEEN, worker=(200_000_000, 321_000_000)))
    assert not overflow_peers.finding([large, *good[1:]], FULL).holds
    unfinished = replace(good[0], ending=good[3].ending)
    assert not overflow_peers.finding([unfinished, *good[1:]], FULL).holds
    wrong = replace(good[5], ending=ending(SEEN, ROWS, 90, None, equal=False))
    assert not overflow_peers.finding([*good[:5], wrong], FULL).equal


def test_a_system_that_is_not_installed_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "missing", lambda peer: "Apache Flink is not installed")
    flink = peers.attempt(PEERS[4], QUICK, tmp_path, Digest(0, 0, ()))
    assert flink.ending.text == "not measured: Apache Flink is not installed"
    assert overflow_peers.finding([tried()[0], flink], FULL).holds


@pytest.mark.parametrize(
    ("log", "error"),
    [
        ("x\njava.lang.OutOfMemoryError: heap\n\tat y\nPy4JError: gone", "java.lang.OutOfMemoryError: heap"),
        ("errors.PenstockError: no\nCaused by: org.rocksdb.RocksDBException: x\n", "org.rocksdb.RocksDBException: x"),
        ("py4j.Py4JJavaError: An error\n: java.lang.NullPointerException: x\n", "java.lang.NullPointerException: x"),
        ("nothing of note\n", None),
    ],
)
def test_an_error_is_found_in_a_log(log: str, error: str | None) -> None:
    assert error_in(log) == error


def test_who_dies_without_a_word_has_an_exit_code() -> None:
    assert ending(replace(SEEN, rows=0, code=-9), ROWS, 90, None, None).text == "died at 0 %: exit code -9"


def test_a_system_that_makes_no_progress_has_stalled() -> None:
    clock = Progress(0.0)
    assert not clock.take(None, 100.0)
    assert clock.take((0, 0), 110.0)
    clock.take((0, 0), 195.0)
    assert clock.verdict(FULL) == ""
    clock.take((0, 0), 201.0)
    assert clock.verdict(FULL) == "stalled"
    clock.take((0, 1), 202.0)  # an epoch without rows is progress
    assert clock.verdict(FULL) == ""
    clock.take((9, 2), 411.0)
    assert (clock.verdict(FULL), clock.rows, clock.seconds) == ("slow", 9, 301.0)


def test_mapped_input_is_not_memory_and_mapped_state_is() -> None:
    held = summed(SMAPS.splitlines(keepends=True), "/data/rows")
    assert (held.resident, held.share) == (130 * 1024, 80 * 1024)
    own = held_by(os.getpid(), Path("/nowhere"))
    assert own is not None
    assert own.resident >= own.share > 1_000_000


def _command(tmp_path: Path, code: str) -> Command:
    file = tmp_path / "told"
    arguments = [sys.executable, "-c", f"from pathlib import Path; told = Path({str(file)!r}); {code}"]
    return Command(arguments, os.environ, b"", file, tmp_path, tmp_path / "log", tmp_path / "output")


def test_the_watchdog_ends_a_system_that_stalls(tmp_path: Path) -> None:
    code = "import time; told.write_text('7 1'); time.sleep(600)"
    seen = watch(_command(tmp_path, code), replace(QUICK, stall=0.2))
    assert (seen.ended, seen.rows, seen.code) == ("stalled", 7, -9)
    assert seen.peak > 1_000_000


def test_the_watchdog_lets_a_system_end_by_itself(tmp_path: Path) -> None:
    seen = watch(_command(tmp_path, "told.write_text('9 3'); raise SystemExit(3)"), QUICK)
    assert (seen.ended, seen.rows, seen.code) == ("", 9, 3)


def test_progress_is_told_through_a_file(tmp_path: Path) -> None:
    assert told(tmp_path / "told") is None
    tell(tmp_path / "told", 12, 3)
    assert told(tmp_path / "told") == (12, 3)


def test_rows_are_written_once_and_their_join_is_known(tmp_path: Path) -> None:
    rows = prepared(tmp_path, SMALL)
    first = (rows / "a" / "000.parquet").stat().st_mtime_ns
    assert prepared(tmp_path, SMALL) == rows
    assert (rows / "a" / "000.parquet").stat().st_mtime_ns == first
    counts = [sum(pq.read_metadata(file).num_rows for file in (rows / name).iterdir()) for name in STREAMS]
    assert counts == [600] * 3
    assert answer(rows, tmp_path / "spill").rows == SMALL.results == 600
    assert found(tmp_path / "none").rows == 0


def test_memory_for_state_is_the_same_for_all() -> None:
    on_heap, rocksdb = (spark_join.settings(FULL, store, Path("/x")) for store in (ON_HEAP, IN_ROCKSDB))
    assert (on_heap["spark.driver.memory"], rocksdb["spark.driver.memory"]) == ("702m", "512m")
    assert rocksdb["spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB"] == "200"
    assert "taskmanager.memory.managed.size=200000000b" in flink_join.arguments(FULL, Path("/x"))
    assert "-Xmx512m" in flink_join.variables(FULL, Path("/x"))["JVM_ARGS"]
