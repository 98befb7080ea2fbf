"""The systems that run the join, and one run of each, in processes of its own, with its answer compared."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from penstock_bench.check.digest import Digest
from penstock_bench.flink.environment import FlinkEnvironment
from penstock_bench.peers import flink_join
from penstock_bench.peers.child import Done, Question
from penstock_bench.peers.ending import Ending, ending, error_in
from penstock_bench.peers.penstock_options import PARK, READ
from penstock_bench.peers.rows import columns_of, prepared
from penstock_bench.peers.scale import Scale
from penstock_bench.peers.stores import IN_ROCKSDB, ON_HEAP
from penstock_bench.peers.texts import found
from penstock_bench.peers.watch import Command, Watched, watch
from penstock_bench.run.launch import child_environment

_MODULES = {"penstock": "penstock_bench.peers.penstock_join", "spark": "penstock_bench.peers.spark_join"}


@dataclass(frozen=True)
class Peer:
    """A system with an option. `given` says what it has of memory for state and of the base."""

    name: str
    kind: Literal["penstock", "spark", "flink"]
    option: str
    given: str


PEERS = (
    Peer("penstock", "penstock", READ, "memory of the sites; base: the heap of its JVM, idle workers"),
    Peer("penstock, parks groups", "penstock", PARK, "memory of the sites; base: the heap of its JVM, idle workers"),
    Peer("spark, state on the heap", "spark", ON_HEAP, "heap, with the base"),
    Peer("spark, RocksDB", "spark", IN_ROCKSDB, "RocksDB's bound; base: the heap"),
    Peer("flink, RocksDB, interval joins", "flink", flink_join.INTERVAL, "managed memory; base: the heap"),
    Peer("flink, RocksDB, one join of three", "flink", flink_join.MULTI, "managed memory; base: the heap"),
)


@dataclass(frozen=True)
class Tried:
    """A system and what came of it; `seen` is None where it could not be started. `seconds` of a query that has ended
    by itself are its own, without the start of the system."""

    peer: Peer
    ending: Ending
    seconds: float = 0.0
    rows: int = 0
    seen: Watched | None = None
    results: int = 0


@dataclass(frozen=True)
class Places:
    """The folders of one run: `scratch` is new and belongs to it."""

    rows: Path
    scratch: Path
    log: Path

    @property
    def results(self) -> Path:
        return self.scratch / "results"

    @property
    def told(self) -> Path:
        return self.scratch / "told"

    @property
    def output(self) -> Path:
        return self.scratch / "output"


def missing(peer: Peer) -> str | None:
    """Return why a system cannot run here, or None."""
    return FlinkEnvironment().missing() if peer.kind == "flink" else None


def attempt(peer: Peer, scale: Scale, folder: Path, expected: Digest) -> Tried:
    """Run the join on a system; `folder` has the rows, and keeps the log."""
    if reason := missing(peer):
        return Tried(peer, Ending("not measured", f"not measured: {reason}"))
    scratch = folder / "run"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    log = folder / f"{peer.kind}-{peer.option}.log"
    try:
        return _run(peer, scale, Places(folder, scratch, log), expected)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _run(peer: Peer, scale: Scale, places: Places, expected: Digest) -> Tried:
    is_flink = peer.kind == "flink"
    seen = watch((_flink if is_flink else _own)(peer, scale, places), scale)
    done, error = (_of_flink if is_flink else _of_own)(places)
    answer = found(places.results) if done else None
    equal = answer.same(expected) if answer else None
    how = ending(seen, scale.all_rows, scale.stall, error, equal)
    seconds, rows = (done.seconds, done.rows) if done else (seen.seconds, seen.rows)
    return Tried(peer, how, seconds, rows, seen, answer.rows if answer else 0)


def _own(peer: Peer, scale: Scale, places: Places) -> Command:
    """Return how Penstock or Spark is started."""
    rows = prepared(places.rows, scale)
    question = Question(
        _MODULES[peer.kind], str(rows), str(places.results), str(places.scratch), str(places.told), scale, peer.option
    )
    arguments = [sys.executable, "-m", "penstock_bench.peers.child"]
    variables = os.environ | child_environment()
    return _command(arguments, variables, msgspec.json.encode(question), rows, places)


def _flink(peer: Peer, scale: Scale, places: Places) -> Command:
    columns = columns_of(places.rows, scale)
    asked = flink_join.request(scale, columns, places.scratch / "columns", places.told, peer.option)
    variables = flink_join.variables(scale, places.scratch)
    (places.scratch / "logs").mkdir()
    return _command(flink_join.arguments(scale, places.scratch), variables, asked, columns, places)


def _command(
    arguments: list[str], variables: Mapping[str, str], question: bytes, rows: Path, places: Places
) -> Command:
    return Command(arguments, variables, question, places.told, rows, places.log, places.output)


def _of_own(places: Places) -> tuple[Done | None, str | None]:
    """Return what Penstock or Spark has done, if it has, and the error of its log."""
    line = places.output.read_bytes()
    if line.strip():
        return msgspec.json.decode(line, type=Done), None
    return None, error_in(places.log.read_text(errors="replace"))


def _of_flink(places: Places) -> tuple[Done | None, str | None]:
    answer = flink_join.answered(places.output)
    if answer is None or answer.error is not None:
        logs = sorted((places.scratch / "logs").glob("*.log"))
        told = [places.log, *logs]
        text = "\n".join(file.read_text(errors="replace") for file in told)
        return None, error_in(f"{text}\n{answer.error if answer else ''}")
    flink_join.as_parquet(answer, places.scratch / "columns", places.results)
    return Done(answer.seconds, answer.rows_read), None
