"""`slide-cost`: what a window that slides costs beyond one that does not."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Sequence

from penstock_bench.experiments.experiment import Bar, Column, Experiment, Finding, Record, Setting
from penstock_bench.experiments.part import ask
from penstock_bench.experiments.slide_cost_run import Case, Question, Trial
from penstock_bench.rows.data import ensure_data

SIZE, SLIDES = 120, 120  # seconds; windows that a row is in
FEW, MANY = 100, 100_000
BAR = 1.2


def measure(setting: Setting) -> Finding:
    rows, warm = (20_000, 10_000) if setting.quick else (4_000_000, 100_000)
    keys = (FEW, 2_000) if setting.quick else (FEW, MANY)
    cases = tuple(Case(SIZE, slide, count) for count in keys for slide in (SIZE, SIZE // SLIDES))
    folder = setting.folder("slide-cost")
    data, little = (ensure_data(setting.folder(f"data-{n}"), n, ("a",)) / "a" for n in (rows, warm))
    setting.tell(f"{setting.repeat} turns of {len(cases)} runs over {rows:,} rows ...")
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        question = Question(cases, setting.repeat, str(data), str(little), setting.master, scratch)
        trials = ask(
            "penstock_bench.experiments.slide_cost_run", question, list[Trial], folder / "slide-cost.log", setting.cores
        )
    return finding(trials, cases)


def finding(trials: Sequence[Trial], cases: Sequence[Case]) -> Finding:
    records = tuple(_record(case, [trial for trial in trials if trial.case == case], trials) for case in cases)
    few = next(r["ratio"] for r, case in zip(records, cases, strict=True) if case.keys == FEW and case.slide != SIZE)
    assert isinstance(few, float)
    bar = Bar(f"a slide of size/{SLIDES}, of a slide of size, {FEW} keys", few, "at most", BAR)
    return Finding(records, (bar,), all(trial.equal for trial in trials))


def _record(case: Case, own: Sequence[Trial], trials: Sequence[Trial]) -> Record:
    tumbling = [t.seconds for t in trials if t.case.keys == case.keys and t.case.slide == t.case.size]
    taken = sorted(trial.seconds for trial in own)
    return {
        "keys": case.keys,
        "size_seconds": case.size,
        "slide_seconds": case.slide,
        "seconds": statistics.median(taken),
        "least": taken[0],
        "most": taken[-1],
        "rows_in": own[0].rows_in,
        "rows_out": own[0].rows_out,
        "epochs": own[0].epochs,
        "equal": all(trial.equal for trial in own),
        "ratio": statistics.median(taken) / statistics.median(tumbling),
    }


SLIDE_COST = Experiment(
    name="slide-cost",
    title="A sliding window beside a tumbling one",
    note="Whole runs over the same files, in turns in one process; windows of 120 s, count and sum. With 100,000 "
    "keys a sliding window has so many results that writing them is most of the work.",
    columns=(
        Column("keys", "keys", ","),
        Column("slide_seconds", "slide s"),
        Column("seconds", "s", ".2f"),
        Column("least", "least", ".2f"),
        Column("most", "most", ".2f"),
        Column("rows_out", "results", ","),
        Column("epochs", "epochs"),
        Column("equal", "equal"),
        Column("ratio", "ratio", ".2f"),
    ),
    measure=measure,
)
