"""The process in which Penstock or Spark runs the join: `python -m penstock_bench.peers.child` reads a question as JSON
from standard input, and writes what it has done as a line of JSON. What goes wrong ends it, with a trace in its log."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import msgspec

from penstock_bench.peers.scale import Scale
from penstock_bench.run.child import claim_stdout, keep_to_cores


@dataclass(frozen=True)
class Question:
    """`module` has a function `run`. `rows` is the folder of the streams, `results` that of Parquet files to write,
    `scratch` is for all else, `told` the file for progress. `option` is what the module makes of it."""

    module: str
    rows: str
    results: str
    scratch: str
    told: str
    scale: Scale
    option: str = ""


@dataclass(frozen=True)
class Done:
    """A query that has ended by itself, from its start to its last result."""

    seconds: float
    rows: int


Prepared = Callable[[], int]  # runs the query and returns how many rows it has taken in


def main() -> None:
    answer = claim_stdout()
    question = msgspec.json.decode(sys.stdin.buffer.read(), type=Question)
    keep_to_cores(question.scale.sites)
    prepare = cast(Callable[[Question], Prepared], importlib.import_module(question.module).prepare)
    query = prepare(question)
    began = time.perf_counter()
    rows = query()
    answer.write(msgspec.json.encode(Done(time.perf_counter() - began, rows)) + b"\n")
    answer.close()


if __name__ == "__main__":
    main()
