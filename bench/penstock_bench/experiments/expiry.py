"""`expiry`: state of which nothing expires must cost nothing."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Sequence

from penstock_bench.experiments.experiment import Bar, Column, Experiment, Finding, Record, Setting
from penstock_bench.experiments.expiry_run import Answer, Question
from penstock_bench.experiments.part import ask

BAR = 5.0  # milliseconds


def measure(setting: Setting) -> Finding:
    sizes = (10_000, 100_000) if setting.quick else (100_000, 10_000_000)
    turns = [[_ask(setting, rows) for rows in sizes] for _ in range(setting.repeat)]
    return finding([list(answers) for answers in zip(*turns, strict=True)], sizes)


def _ask(setting: Setting, rows: int) -> Answer:
    folder = setting.folder("expiry")
    setting.tell(f"a band join with {rows:,} rows of state ...")
    epochs, small = (5, 5) if setting.quick else (20, 20)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        question = Question(rows, epochs, small, 1_000, setting.master, scratch)
        return ask("penstock_bench.experiments.expiry_run", question, Answer, folder / "expiry.log", setting.cores)


def finding(answers: Sequence[Sequence[Answer]], sizes: Sequence[int]) -> Finding:
    """The turns of each size, the largest last. No row has a partner, so a result would be wrong."""
    records = tuple(_record(turns) for turns in answers)
    most = statistics.median(answer.expiry for answer in answers[-1]) * 1e3
    bar = Bar(f"expiry of nothing from {sizes[-1]:,} rows of state", most, "at most", BAR, "ms")
    complete = all(a.state_rows >= size for size, turns in zip(sizes, answers, strict=True) for a in turns)
    return Finding(records, (bar,), complete and not any(a.rows_out for turns in answers for a in turns))


def _record(turns: Sequence[Answer]) -> Record:
    return {
        "state_rows": turns[0].state_rows,
        "runs": turns[0].runs,
        "expiry_milliseconds": statistics.median(answer.expiry for answer in turns) * 1e3,
        "epoch_milliseconds": statistics.median(answer.epoch for answer in turns) * 1e3,
    }


EXPIRY = Experiment(
    name="expiry",
    title="Expiry of nothing",
    note="The state of a band join of a day, in as many runs as the epochs that brought it have left. Expiry: the "
    "time of the slowest site to look for expired runs and for runs to compact, where there are none. Epoch: "
    "one of 1,000 rows.",
    columns=(
        Column("state_rows", "rows of state", ","),
        Column("runs", "runs of a site"),
        Column("expiry_milliseconds", "expiry ms", ".3f"),
        Column("epoch_milliseconds", "epoch ms", ".1f"),
    ),
    measure=measure,
)
