"""The parts of an experiment that need a process of their own: a JVM with its settings, memory that is nobody else's.

A part is a module whose `main` is `serve(Question, work)`: it answers questions, a line of JSON each, until there are
none. Whatever else is printed there goes to a log.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import msgspec

from penstock_bench.run.child import claim_stdout, keep_to_cores
from penstock_bench.run.launch import child_environment, child_failed

A = TypeVar("A")
_CORES = "PENSTOCK_BENCH_CORES"


def ask(module: str, question: object, answer: type[A], log: Path, cores: int = 2) -> A:
    """The answer of a module to one question, computed in a new process."""
    with Part(module, log, cores) as part:
        return part.ask(question, answer)


class Part:
    """`with Part(...) as part: part.ask(...)`: a process that answers one question after the other."""

    def __init__(self, module: str, log: Path, cores: int = 2) -> None:
        self._module, self._log = module, log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=os.environ | child_environment() | {_CORES: str(cores)},
            )

    def ask(self, question: object, answer: type[A]) -> A:
        told, heard = self._process.stdin, self._process.stdout
        assert told is not None
        assert heard is not None
        try:
            told.write(msgspec.json.encode(question) + b"\n")
            told.flush()
            line = heard.readline()
        except BrokenPipeError:
            line = b""
        if not line:
            name = self._module.rpartition(".")[2]
            raise child_failed(f"the part {name} of a benchmark failed", self._log, self._process.wait())
        return msgspec.json.decode(line, type=answer)

    def __enter__(self) -> Part:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Without questions it ends by itself; where something went wrong, nobody waits for that."""
        if kind is not None:
            self._process.kill()
        self._process.communicate()


def serve(question: Any, work: Callable[[Any], object]) -> None:
    """Answer the questions on standard input, which are of the type `question`."""
    answers = claim_stdout()
    keep_to_cores(int(os.environ.get(_CORES, "2")))
    for line in sys.stdin.buffer:
        answers.write(msgspec.json.encode(work(msgspec.json.decode(line, type=question))) + b"\n")
        answers.flush()
