"""`adapt-flush`: the highest rate without a backlog, over the number of groups that a window closes, by how it does."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from penstock.settings import Flush
from penstock_bench.adapt.flush_plot import write_plot
from penstock_bench.adapt.flush_run import Question, Trial
from penstock_bench.experiments.experiment import Bar, Column, Experiment, Finding, Record, Setting
from penstock_bench.experiments.part import Part

GROUPS = (66_000, 131_000, 262_000, 520_000)  # as in figure 9 of the OOP paper
MODES = ("eager", "slow", "lazy")
BUFFER = 0.25  # seconds: a rate is held while no row waits longer to be taken in; epochs are 0.1 s
TRIES = 2  # a rate that is held in one of so many is held: the machine has bursts of its own
BAR = 1.2
STEP = 2**0.5  # from one rate that is tried to the next


@dataclass(frozen=True)
class Size:
    """Trials of `seconds`; windows of `size` seconds, every `slide`. Epochs are compared at the rate `common`, the
    lowest that is tried."""

    groups: tuple[int, ...] = GROUPS
    common: int = 100_000
    steps: int = 10
    seconds: float = 8.0
    size: int = 6
    slide: int = 2

    def rate(self, step: int) -> int:
        return round(self.common * STEP**step)


QUICK = Size(groups=(1_000, 3_000), common=4_000, steps=1, seconds=2.2, size=2, slide=1)
Try = Callable[[int, str, int], Trial]  # with so many groups, flushed so, at this rate


@dataclass(frozen=True)
class Line:
    """`highest` is the highest rate that was held, 0 where not even the common one was; `common` the trial at that."""

    groups: int
    flush: str
    highest: int
    common: Trial
    equal: bool


def measure(setting: Setting) -> Finding:
    size, folder = QUICK if setting.quick else Size(), setting.folder("adapt-flush")
    with (
        tempfile.TemporaryDirectory(dir=folder) as scratch,
        Part("penstock_bench.adapt.flush_run", folder / "adapt-flush.log", setting.cores) as part,
    ):

        def tried(groups: int, flush: str, rate: int) -> Trial:
            place = str(Path(scratch) / "trial")
            how = (size.seconds, size.size, size.slide, setting.master, setting.cores, place)
            question = Question(groups, cast(Flush, flush), 1, rate, *how)
            trial = part.ask(question, Trial)
            setting.tell(
                f"{groups:,} groups, {flush}, {rate:,} rows/s: lag {trial.lag:.2f} s, epoch {trial.longest:.2f} s"
            )
            return trial

        tried(size.groups[0], MODES[0], size.common)  # a warm-up
        lines = all_lines(size, tried)
    pictures = [write_plot(lines, setting.pictures / "adapt-flush.png")] if setting.pictures else []
    return finding(lines, pictures)


def all_lines(size: Size, tried: Try) -> list[Line]:
    return [_line(size, groups, flush, tried) for groups in size.groups for flush in MODES]


def _line(size: Size, groups: int, flush: str, tried: Try) -> Line:
    trials: list[Trial] = []

    def held(step: int) -> bool:
        for _ in range(TRIES):
            trials.append(tried(groups, flush, size.rate(step)))
            if trials[-1].lag <= BUFFER:
                return True
        return False

    step = highest(held, size.steps)
    equal = all(trial.equal for trial in trials)
    return Line(groups, flush, 0 if step is None else size.rate(step), trials[0], equal)


def highest(held: Callable[[int], bool], most: int) -> int | None:
    """The highest step from 0 to `most` that is held, found by halving; None: not even the first."""
    if not held(0):
        return None
    good, bad = 0, most + 1
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if held(middle) else (good, middle)
    return good


def finding(lines: Sequence[Line], pictures: Sequence[Path] = ()) -> Finding:
    eager = {line.groups: line for line in lines if line.flush == "eager"}
    records = tuple(_record(line, eager[line.groups]) for line in lines)
    most = max(eager)
    bars = tuple(
        Bar(f"the highest rate, {line.flush} of eager, {most:,} groups", _of(line, eager[most]), "at least", BAR)
        for line in lines
        if line.groups == most and line.flush != "eager"
    )
    return Finding(records, bars, all(line.equal for line in lines), tuple(pictures))


def _of(line: Line, eager: Line) -> float:
    return line.highest / max(1, eager.highest)


def _record(line: Line, eager: Line) -> Record:
    return {
        "groups": line.groups,
        "flush": line.flush,
        "highest_rate": line.highest,
        "of_eager": _of(line, eager) if eager.highest else None,
        "median_seconds": line.common.median,
        "percentile_99_seconds": line.common.percentile_99,
        "longest_seconds": line.common.longest,
        "lag_seconds": line.common.lag,
        "epochs": line.common.epochs,
        "results": line.common.rows_out,
        "equal": line.equal,
    }


ADAPT_FLUSH = Experiment(
    name="adapt-flush",
    title="Closings spread over epochs, or left to idle time",
    note="Rows arrive live; five aggregates by key in windows of 6 s, every 2 s; epochs of 100 ms, max_delay 1. "
    f"The highest rate is the last of rates a factor of {STEP:.2f} apart at which no row waited more than {BUFFER} s "
    f"to be taken in, in one of {TRIES} trials (OOP, figure 9: without lost packets). "
    "Epochs and lag are those at 100,000 rows/s.",
    columns=(
        Column("groups", "groups", ","),
        Column("flush", "flush"),
        Column("highest_rate", "rows/s at most", ","),
        Column("of_eager", "of eager", ".2f"),
        Column("median_seconds", "epoch, 50 % s", ".3f"),
        Column("percentile_99_seconds", "99 % s", ".3f"),
        Column("longest_seconds", "longest s", ".3f"),
        Column("lag_seconds", "lag s", ".2f"),
        Column("equal", "equal"),
    ),
    measure=measure,
)
