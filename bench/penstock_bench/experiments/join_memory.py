"""`join-memory`: what a million rows of join state take in memory, as the slope between two sizes."""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from penstock_bench.experiments.experiment import Bar, Column, Experiment, Finding, Record, Setting
from penstock_bench.experiments.files_made import write_files
from penstock_bench.experiments.join_memory_run import MEASURES, Answer, Question
from penstock_bench.experiments.part import ask
from penstock_bench.experiments.process_memory import Memory
from penstock_bench.experiments.scripted import Step

BAR = 1 / 3
FILES = 10
FILE_SPAN = 30_000_000  # microseconds of event time
START = 1_600_000_000_000_000  # a row at time 0 would be late for Spark: that is where its watermark begins
SHARED = 100  # one key in so many is on both sides

Answers = Mapping[tuple[str, int], Sequence[Answer]]


def measure(setting: Setting) -> Finding:
    sizes = (20_000, 60_000) if setting.quick else (1_000_000, 3_000_000)
    folder = setting.folder("join-memory")
    data = {size: prepared(folder / f"data-{size}", size) for size in sizes}
    pairs = [(system, size) for size in sizes for system in MEASURES]
    answers: dict[tuple[str, int], list[Answer]] = {pair: [] for pair in pairs}
    for _ in range(setting.repeat):
        for system, size in pairs:
            answers[system, size].append(_ask(setting, folder, system, size, data[size]))
    return finding(answers, sizes)


def prepared(folder: Path, rows: int) -> Path:
    """Files of both streams, half of the rows each: every key once on its side, one in a hundred on the other too."""
    side = rows // 2
    shutil.rmtree(folder, ignore_errors=True)
    for name, first in (("a", 0), ("b", side - side // SHARED)):
        write_files(folder / name, [_step(number, first, side // FILES) for number in range(FILES)])
    return folder


def _step(number: int, first: int, rows: int) -> Step:
    low = START + number * FILE_SPAN
    return Step("x", rows, low, low + FILE_SPAN, first_key=first + number * rows, keys=rows)


def _ask(setting: Setting, folder: Path, system: str, size: int, data: Path) -> Answer:
    setting.tell(f"{system}, {size:,} rows of join state ...")
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        question = Question(system, str(data), size, setting.master, setting.cores, scratch)
        log = folder / f"join-memory-{system}.log"
        return ask("penstock_bench.experiments.join_memory_run", question, Answer, log, setting.cores)


def finding(answers: Answers, sizes: Sequence[int]) -> Finding:
    records = tuple(_record(system, answers, sizes) for system in MEASURES)
    ours, theirs = (_slope(answers, system, sizes, "alive") for system in ("penstock", "spark"))
    bar = Bar("memory per row of join state, of Spark's default store", ours / theirs, "at most", BAR)
    found = [answer for own in answers.values() for answer in own]
    return Finding(records, (bar,), all(answer.equal and answer.rows_out > 0 for answer in found))


def _record(system: str, answers: Answers, sizes: Sequence[int]) -> Record:
    slopes = {f"{what}_per_million": _slope(answers, system, sizes, what) for what in _MEASURED}
    largest = [answer.memory.alive for answer in answers[system, sizes[-1]]]
    return {"system": system, "rows": sizes[-1], "alive": statistics.median(largest) / 1e6, **slopes}


_MEASURED = ("alive", "processes", "disk", "told")


def _slope(answers: Answers, system: str, sizes: Sequence[int], what: str) -> float:
    """Megabytes for each million rows between the smallest and the largest size."""
    few, many = (_median(answers[system, size], what) for size in (sizes[0], sizes[-1]))
    return (many - few) / (sizes[-1] - sizes[0])


def _median(answers: Sequence[Answer], what: str) -> float:
    return statistics.median(_bytes(answer.memory, what) for answer in answers)


def _bytes(memory: Memory, what: str) -> int:
    return int(getattr(memory, what))


JOIN_MEMORY = Experiment(
    name="join-memory",
    title="Memory of join state beside Spark's default store",
    note="Megabytes for a million rows, as the slope between two sizes; every run in a process of its own. Alive: "
    "the heap of the JVM after a full collection and the set size of all other processes. Processes: the set "
    "size of all, with heap that is free. Told: what Spark says of its state.",
    columns=(
        Column("system", "system"),
        Column("alive_per_million", "alive", ",.1f"),
        Column("processes_per_million", "processes", ",.1f"),
        Column("disk_per_million", "checkpoint", ",.1f"),
        Column("told_per_million", "told", ",.1f"),
        Column("rows", "rows", ","),
        Column("alive", "alive MB", ",.0f"),
    ),
    measure=measure,
)
