"""Damage campaign: `python -m tests.support.damage --tries 1200 --seed 1`.

Every kind of file of a checkpoint is damaged in every way at every moment. Each try must end in an error in three
parts, or with the right answer. Tries run in a separate process, so that one that hangs or crashes is counted like any
other. Exits with 1 if a try was silent, a trace, a hang or a crash.
"""

from __future__ import annotations

import argparse
import multiprocessing
import shutil
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random

from tests.support.damage.tries import (
    CRASH,
    FAILURES,
    HANG,
    HARMLESS,
    NAMED,
    NOTHING,
    Trials,
    Tried,
    Try,
    all_tries,
)

SECONDS = 30.0  # a try takes less than one second; a busy machine must not look like a hang


class Worker:
    """The process in which tries run; it is replaced when it hangs or dies."""

    def __init__(self, folder: Path, seed: object) -> None:
        self._folder, self._seed = folder, seed
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._line, theirs = context.Pipe()
        self._folder.mkdir(exist_ok=True)
        self._process = context.Process(target=_serve, args=(theirs, str(self._folder), self._seed), daemon=True)
        self._process.start()
        theirs.close()

    def make(self, one: Try) -> Tried:
        """Run one try and return its outcome."""
        self._line.send(one)
        try:
            self._line.recv()  # the scenario is prepared, which may take a while
            if self._line.poll(SECONDS):
                found: Tried = self._line.recv()
                return found
            outcome = Tried(HANG, f"no answer after {SECONDS:g} s")
        except (EOFError, ConnectionError):
            self._process.join()
            outcome = Tried(CRASH, f"the process ended with {self._process.exitcode}")
        self.close()
        self._start()
        return outcome

    def close(self) -> None:
        self._process.kill()
        self._process.join()
        self._line.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _serve(line: Connection, folder: str, seed: object) -> None:
    """Run tries in the worker process, until it is killed."""
    trials = Trials(Path(folder), seed)
    while True:
        one = line.recv()
        trials.prepare(one)
        line.send(None)
        line.send(trials.make(one))


def campaign(tries: Iterable[Try], seed: object, folder: Path) -> Iterator[tuple[Try, Tried]]:
    """Run tries one after another; yield each with its outcome."""
    worker = Worker(folder / "damage", seed)
    try:
        for one in tries:
            yield one, worker.make(one)
    finally:
        worker.close()


def chosen(count: int, seed: object) -> list[Try]:
    """Choose `count` tries: all kinds, repeated in other scenarios, or a random sample of them."""
    every = all_tries()
    if count < len(every):
        return Random(f"{seed}").sample(every, count)
    return all_tries(-(-count // len(every)))[:count]


def table(found: Sequence[tuple[Try, Tried]]) -> str:
    """Format the number of outcomes by kind of file and by kind of damage."""
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    for one, tried in found:
        for name in (one.file, f"  {one.damage}", "all"):
            rows[name][tried.outcome] += 1
    names = [*sorted(n for n in rows if n[0] != " " and n != "all"), *sorted(n for n in rows if n[0] == " "), "all"]
    heads = [NAMED, HARMLESS, *FAILURES, NOTHING]
    lines = [f"{'':34}" + "".join(f"{head:>18}" for head in heads)]
    lines += [f"{name:34}" + "".join(f"{rows[name][head] or '.':>18}" for head in heads) for name in names]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign and return the exit code."""
    parser = argparse.ArgumentParser(description="Damaged checkpoints: named, harmless or refused, never silent.")
    parser.add_argument("--tries", type=int, default=1200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="only tries whose description holds this text")
    asked = parser.parse_args(arguments)
    tries = [one for one in chosen(asked.tries, asked.seed) if asked.only in str(one)]
    found: list[tuple[Try, Tried]] = []
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="penstock-damage-") as folder:
        for one, tried in campaign(tries, asked.seed, Path(folder)):
            found.append((one, tried))
            if len(found) % 100 == 0:
                print(f"{len(found)} tries, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
            if tried.outcome in FAILURES:
                print(f"=== {tried.outcome}: {one}\n{tried.detail}\n", flush=True)
    print(table(found))
    failed = sum(tried.outcome in FAILURES for _, tried in found)
    print(f"{len(found)} tries, {failed} failed (seed {asked.seed})")
    return int(failed > 0)
