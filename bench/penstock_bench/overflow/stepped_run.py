"""The process of the experiments on overflow: a join that is run epoch by epoch, and what its sites hold meanwhile."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from penstock.balance.decisions import Move
from penstock.checkpoint.store import Checkpoint
from penstock.clock import Clock
from penstock.engine.driver.loop import EpochLoop, Outcome
from penstock.engine.driver.recovery import recover
from penstock.events import ChangeRefused, DirectoryChanged, Event
from penstock.plan.compile.subqueries import compile_query
from penstock.plan.options import CompileOptions
from penstock.settings import Settings
from penstock_bench.experiments.part import serve
from penstock_bench.overflow.charged import Charges, charged
from penstock_bench.overflow.choices import Choice, known_as
from penstock_bench.overflow.clocks import HandClock, ProcessorClock, SteppedExecutor
from penstock_bench.overflow.seen import OverflowEpoch, OverflowSeen
from penstock_bench.overflow.streams import Streams, same

Option = str | int | float | None


@dataclass(frozen=True)
class Question:
    """Join `streams` under a policy with some settings. An epoch takes `length` seconds of the clock that rounds
    follow. Site 0 begins with at least the part `heavy` of all groups. With `charges`, the work of sites takes
    simulated time, and an epoch as long as its slowest site; otherwise it is measured."""

    streams: Streams
    choice: Choice
    settings: dict[str, Option]
    scratch: str
    length: float = 15.0
    heavy: float = 0.0
    charges: Charges | None = None


class Drive:
    """The epoch loop of one run, step by step."""

    def __init__(self, question: Question, loop: EpochLoop, clock: HandClock, events: list[Event]) -> None:
        self._question, self._loop, self._clock, self._events = question, loop, clock, events

    def rest(self) -> Iterator[OverflowEpoch]:
        """Run to the end, and yield the epochs."""
        while not self._loop.manifest.finished:
            yield self.step()

    def step(self) -> OverflowEpoch:
        """Run one epoch, with statistics."""
        self._loop.watched = True
        self._events.clear()
        before, began, at = self._loop.manifest.totals, time.process_time(), self._clock.now
        outcome = self._loop.step()
        assert outcome is not Outcome.IDLE, "an epoch without work"
        after, (stats, *_) = self._loop.manifest.totals, self._loop.stats
        words = [event.what.split()[0] for event in self._events if isinstance(event, DirectoryChanged)]
        return OverflowEpoch(
            rows_in=after.rows_in - before.rows_in,
            results=after.rows_out - before.rows_out,
            held=tuple(int(size) for size in stats.held),
            parked=tuple(int(size) for size in stats.of_sites(stats.loads.parked_bytes)),
            seconds=tuple(float(seconds) for seconds in stats.busy),
            whole=time.process_time() - began,
            length=self._clock.now - at,
            moves=words.count("move"),
            parks=words.count("park"),
            refused=sum(isinstance(event, ChangeRefused) for event in self._events),
        )

    def crowd(self) -> None:
        """Move groups to site 0 until it has its part of them."""
        directory, want = self._loop.directories[0], self._question.heavy
        others = [(group, home) for group, home in zip(directory.groups, directory.home_of, strict=True) if home]
        missing = round(want * len(directory.groups)) - (len(directory.groups) - len(others))
        every = max(1, len(others) // max(1, missing))
        for group, home in others[::every][: max(0, missing)]:
            self._loop.change(0, Move(group, int(home), 0))


@contextmanager
def driving(question: Question, choice: Choice, clock: HandClock, tasks: Clock) -> Iterator[Drive]:
    """Open the checkpoint of a question, under a policy; `tasks` measures the work of sites. They work one after the
    other, so their clock is not that of the driver, for which they work at the same time."""
    scratch, events = Path(question.scratch), list[Event]()
    options = {"policy": known_as(choice), "round_seconds": question.length, **question.settings}
    settings = Settings(master="inline").with_options(**options)
    sink = question.streams.joined().to.files(str(scratch / "rows"), format="arrow").sink
    checkpoint = Checkpoint.open(scratch / "checkpoint")
    executor = SteppedExecutor(clock, tasks, None if question.charges else question.length)
    try:
        recovered = recover(compile_query(sink, CompileOptions.of(settings)), checkpoint, settings, events.append)
        yield Drive(question, EpochLoop(recovered, executor, events.append, clock), clock, events)
    finally:
        checkpoint.close()


def run(question: Question) -> OverflowSeen:
    """Run a question to its end, and compare the results with the batch answer. The first epoch is run without a
    policy: a group that is moved by hand stays, until the query is started again."""
    clock, by_hand = HandClock(), HandClock()
    scratch = Path(question.scratch)
    work = charged(question.charges, by_hand) if question.charges else nullcontext()
    tasks = by_hand if question.charges else ProcessorClock()
    try:
        with work:
            with driving(question, Choice("static"), clock, tasks) as drive:
                drive.crowd()
                first = drive.step()
            with driving(question, question.choice, clock, tasks) as drive:
                epochs = (first, *drive.rest())
        return OverflowSeen(epochs, same(scratch / "rows", question.streams))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    serve(Question, run)
