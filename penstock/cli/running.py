"""Run jobs side by side until all have ended, show their progress, and handle Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NoReturn

import psutil

from penstock.api.handle import Run
from penstock.api.launch import check_together
from penstock.api.progress_line import NamedProgress, Screen
from penstock.cli.target import Job
from penstock.events import Event, SparkStarting

_LOOK_EVERY = 0.1  # seconds
_STOPS_WITHIN = 1.5  # seconds after the second Ctrl-C
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_PATIENCE = 2  # signals; the next one raises KeyboardInterrupt
_START_TICKS = 22 - 3  # field 22 of /proc/self/stat; field 3 is the first one behind the name


@dataclass(frozen=True)
class Ended:
    """A job that has ended. `starting` is the number of seconds from the start of the command until the query began."""

    job: Job
    run: Run
    starting: float = 0.0

    @property
    def was_finished(self) -> bool:
        """Return whether the query had already finished before this run."""
        return self.run.progress.state == "finished" and self.run.progress.epochs == 0


def run_jobs(jobs: Sequence[Job], options: Mapping[str, Any], screen: Screen) -> tuple[list[Ended], int]:
    """Run the jobs to their end. Return them with the exit code: 0, or that of Ctrl-C. The error that ended a run is
    raised after the others have stopped."""
    with screen:
        if len(jobs) > 1:  # a single job is checked when it starts
            check_together([(job.name, job.ready.sink, job.checkpoint) for job in jobs], options)
        runs = _start(jobs, options, screen)
        starting = _age_of_process()
        with Interrupts() as interrupts:
            _watch(jobs, runs, interrupts, screen)
    for run in runs:
        run.wait()
    return [Ended(job, run, starting) for job, run in zip(jobs, runs, strict=True)], interrupts.exit_code


def _start(jobs: Sequence[Job], options: Mapping[str, Any], screen: Screen) -> list[Run]:
    """Start all jobs; if one fails, stop those already started."""

    def emit(event: Event) -> None:
        if isinstance(event, SparkStarting):
            screen.starting(f"starting Spark {event.master}")

    runs: list[Run] = []
    try:
        for job in jobs:
            place = None if job.checkpoint is None else str(job.checkpoint)
            runs.append(job.ready.start(place, on_event=emit, progress=False, **options))
    except BaseException:
        _stop(runs, now=True)
        raise
    return runs


def _age_of_process() -> float:
    """Return the seconds since the start of this process."""
    if sys.platform != "linux":
        return time.time() - float(psutil.Process().create_time())
    # Linux counts ticks since it was booted. psutil adds the time of the boot, which it knows to the second only.
    behind_name = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(behind_name[_START_TICKS]) / os.sysconf("SC_CLK_TCK")


def _watch(jobs: Sequence[Job], runs: Sequence[Run], interrupts: Interrupts, screen: Screen) -> None:
    """Show progress and handle signals until all runs have ended."""
    names = [job.name if len(jobs) > 1 else "" for job in jobs]
    obeyed, stop_by, warned = 0, float("inf"), [0 for _ in runs]
    while any(run.running for run in runs):
        screen.show([NamedProgress(name, run.progress) for name, run in zip(names, runs, strict=True)])
        if interrupts.count > obeyed:
            obeyed = interrupts.count
            _obey(runs, obeyed, screen)
            stop_by = time.monotonic() + _STOPS_WITHIN if obeyed > 1 else stop_by
        if time.monotonic() > stop_by:
            _leave(interrupts.exit_code, screen)
        if any(run.progress.state == "failed" for run in runs):
            _request_stop(runs)
        _warn(runs, warned, screen)
        time.sleep(_LOOK_EVERY)
    _warn(runs, warned, screen)


def _warn(runs: Sequence[Run], warned: list[int], screen: Screen) -> None:
    """Print new warnings; `warned` counts those already printed of each run."""
    for number, run in enumerate(runs):
        for text in run.warnings[warned[number] :]:
            screen.say(text)
            warned[number] += 1


def _obey(runs: Iterable[Run], count: int, screen: Screen) -> None:
    """Stop the runs: after their epoch on the first Ctrl-C, at once on the second."""
    if count == 1:
        screen.say("finishing the epoch, press Ctrl-C again to stop now")
    else:
        screen.say("stopping now")
    _request_stop(runs, now=count > 1)


def _leave(code: int, screen: Screen) -> NoReturn:
    """End the process in the middle of a long step. This is safe, because an uncommitted epoch has no effect."""
    screen.__exit__(None, None, None)
    print("stopped in the middle of an epoch; the same command continues from the last committed one", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _request_stop(runs: Iterable[Run], now: bool = False) -> None:
    for run in runs:
        if run.running:
            run.request_stop(now)


def _stop(runs: Iterable[Run], now: bool) -> None:
    for run in runs:
        run.stop(now)


class Interrupts:
    """Counts SIGINT and SIGTERM within its `with` block."""

    def __init__(self) -> None:
        self.count = 0
        self.signal = signal.SIGINT
        self._before: dict[signal.Signals, Any] = {}

    @property
    def exit_code(self) -> int:
        """Return 128 plus the number of the signal; 0 if there was none."""
        return 128 + self.signal if self.count else 0

    def __enter__(self) -> Interrupts:
        self._before = {number: signal.signal(number, self._note) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal = signal.Signals(number)
        self.count += 1
        if self.count > _PATIENCE:
            raise KeyboardInterrupt
