"""The process that Flink runs in, and how to ask it: a line of JSON each way (`driver.py` is the other side)."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import msgspec

from penstock.errors import PenstockError
from penstock_bench.flink.environment import DRIVER, FlinkEnvironment

STOP_SECONDS = 30
_TAIL_LINES = 20


@dataclass(frozen=True)
class Request:
    """`tables` are statements that create the input, `query` is a SELECT, `out` the folder of its result as column
    files. `told`: a file for how many rows have been read so far."""

    tables: tuple[str, ...]
    query: str
    out: str
    settings: dict[str, str]
    told: str | None = None


class Answer(msgspec.Struct, frozen=True):
    """`seconds` is from the query's text to its last result; `net_seconds` is without planning and submission. With an
    `error`, nothing else counts. `columns` are the names and Flink types of the result."""

    seconds: float = 0.0
    net_seconds: float = 0.0
    rows_read: int = 0
    columns: tuple[tuple[str, str], ...] = ()
    error: str | None = None


class FlinkProcess:
    """A running Flink. It stays warm from one request to the next."""

    def __init__(self, environment: FlinkEnvironment, slots: int, memory_gib: int, logs: Path) -> None:
        logs.mkdir(parents=True, exist_ok=True)
        self._logs = logs
        # -I: no module of the folder that the driver lies in may hide one of the standard library.
        self._process = subprocess.Popen(
            [str(environment.python), "-I", str(DRIVER), str(slots)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment.variables(memory_gib, logs),
        )
        self._line()

    def ask(self, request: Request) -> Answer:
        requests = _pipe(self._process.stdin)
        requests.write(msgspec.json.encode(request) + b"\n")
        requests.flush()
        answer = msgspec.json.decode(self._line(), type=Answer)
        if answer.error is not None:
            raise PenstockError("Flink could not answer a query", detail=_tail(answer.error), hint=f"see {self._logs}")
        return answer

    def stop(self) -> None:
        """Lets it end by itself; ends it where it does not."""
        _pipe(self._process.stdin).close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _line(self) -> bytes:
        line = _pipe(self._process.stdout).readline()
        if not line:
            code = self._process.wait()
            raise PenstockError(f"Flink ended unexpectedly (exit code {code})", hint=f"see {self._logs}")
        return line


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None, "both ends were opened as pipes"
    return pipe


def _tail(text: str) -> str:
    return "\n".join(text.splitlines()[-_TAIL_LINES:])
