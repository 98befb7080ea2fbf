"""The watchdog: runs a system in processes of its own, looks at its memory and its progress, and ends it when it stalls
or takes too long."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from penstock_bench.peers.memory import Peaks, tree_of
from penstock_bench.peers.scale import Scale
from penstock_bench.peers.told import told

PERIOD = 0.5
START_SECONDS = 120.0  # that a system may take before its query starts
Reason = Literal["", "stalled", "slow"]


@dataclass(frozen=True)
class Command:
    """What is started, and with what on its standard input. It tells of its progress in the file `told`; `input` are
    files that it reads, `log` and `output` get what it writes."""

    arguments: Sequence[str]
    variables: Mapping[str, str]
    question: bytes
    told: Path
    input: Path
    log: Path
    output: Path


@dataclass(frozen=True)
class Watched:
    """What was seen of a system. `seconds` are from the start of its query, of which it had taken in `rows`; `code` is
    its exit code, and `ended` says why it was ended from outside. Memory is in bytes, of all processes together: `idle`
    when the query started, and `peak`. `worker` is that of the Python process that has grown most, at first and at
    most."""

    seconds: float
    rows: int
    code: int
    ended: Reason
    idle: int
    peak: int
    worker: tuple[int, int]


def watch(command: Command, scale: Scale) -> Watched:
    """Run a command to its end, or to where it is ended."""
    with command.log.open("wb") as log, command.output.open("wb") as output:
        process = subprocess.Popen(
            command.arguments,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=log,
            env=dict(command.variables),
            start_new_session=True,
        )
    assert process.stdin is not None
    process.stdin.write(command.question)
    process.stdin.close()
    root = psutil.Process(process.pid)
    try:
        return _watched(process, root, command, scale)
    finally:
        end_all(tree_of(root))
        process.wait()


def _watched(process: subprocess.Popen[bytes], root: psutil.Process, command: Command, scale: Scale) -> Watched:
    peaks, clock, tree = Peaks(command.input), Progress(time.monotonic()), [root]
    ended: Reason = ""
    while process.poll() is None and not ended:
        tree = tree_of(root)
        peaks.look(tree, begins=clock.take(told(command.told), time.monotonic()))
        ended = clock.verdict(scale)
        time.sleep(PERIOD)
    end_all(tree)  # whoever is left: workers outlive a JVM that dies
    clock.take(told(command.told), clock.now)
    return Watched(clock.seconds, clock.rows, process.wait(), ended, peaks.idle, peaks.most, peaks.grown())


class Progress:
    """How far a system is, by what it tells and when. Before the query starts, its clock is not running."""

    def __init__(self, now: float) -> None:
        self.now = self._began = self._moved = now
        self._told: tuple[int, int] | None = None

    def take(self, told: tuple[int, int] | None, now: float) -> bool:
        """Note what is told at a time; return whether the query has just started."""
        starts = self._told is None and told is not None
        if starts:
            self._began = now
        if told != self._told:
            self._told, self._moved = told, now
        self.now = now
        return starts

    @property
    def rows(self) -> int:
        return self._told[0] if self._told else 0

    @property
    def seconds(self) -> float:
        return self.now - self._began

    def verdict(self, scale: Scale) -> Reason:
        """Return why the system is to be ended now, or nothing."""
        if self.now - self._moved > (scale.stall if self._told else START_SECONDS):
            return "stalled"
        return "slow" if self._told and self.seconds > scale.limit else ""


def end_all(tree: Sequence[psutil.Process]) -> None:
    """Kill a root and the processes below it, which are listed before: the workers of a dead JVM would be nobody's
    children. The root is not waited for: whoever started it is to learn its exit code."""
    for process in tree:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(list(tree[1:]), timeout=30)
