"""`adapt-fetch`: half of a large state gets new homes on other executors, whose caches have nothing of it."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence

import numpy as np

from penstock_bench.adapt.fetching_run import Answer, Question
from penstock_bench.experiments.experiment import Bar, Column, Experiment, Finding, Record, Setting
from penstock_bench.experiments.part import ask

MASTER = "local-cluster[2,1,3072]"  # two executors of one core each, each with a cache of its own
LETTERS = 1_000  # in a row of the state
BAR = 2.0
LEAST_FETCHED = 400  # megabytes
MEGABYTE = 1_000_000


def measure(setting: Setting) -> Finding:
    state, filling, epochs = (4_000, 4, 12) if setting.quick else (1_000_000, 40, 150)
    folder = setting.folder("adapt-fetch")
    setting.tell(f"{epochs} epochs before and {epochs} after half of {state * LETTERS // MEGABYTE:,} MB move ...")
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        question = Question(MASTER, state, LETTERS, filling, epochs, wide=200, narrow=2_000, folder=scratch)
        answer = ask("penstock_bench.adapt.fetching_run", question, Answer, folder / "adapt-fetch.log", setting.cores)
    return finding(answer, setting.quick)


def finding(answer: Answer, quick: bool = False) -> Finding:
    fetching = next((n for n in range(len(answer.fetched_after), 0, -1) if answer.fetched_after[n - 1]), 0)
    records = (
        _record("before the move", answer, answer.before, answer.fetched_before),
        _record("while it was fetched", answer, answer.after[:fetching], answer.fetched_after),
        _record("after the move, all", answer, answer.after, answer.fetched_after),
    )
    ratio = _percentile(answer.after, 99) / _percentile(answer.before, 99)
    bars = [Bar("99th percentile of the epoch, of the undisturbed one", ratio, "at most", BAR)]
    if not quick:
        fetched = sum(answer.fetched_after) / MEGABYTE
        bars.append(Bar("state fetched by its new hosts", fetched, "at least", LEAST_FETCHED, "MB"))
    return Finding(records, tuple(bars), answer.equal)


def _record(what: str, answer: Answer, seconds: Sequence[float], fetched: Sequence[int]) -> Record:
    return {
        "what": what,
        "epochs": len(seconds),
        "median": _percentile(seconds, 50),
        "p99": _percentile(seconds, 99),
        "most": max(seconds, default=0.0),
        "fetched_megabytes": sum(fetched) / MEGABYTE,
        "state_megabytes": answer.state_bytes / MEGABYTE,
        "moved_megabytes": answer.moved_bytes / MEGABYTE,
        "stays": answer.stays,
        "equal": answer.equal,
    }


def _percentile(seconds: Sequence[float], part: int) -> float:
    return float(np.percentile(seconds, part)) if seconds else 0.0


ADAPT_FETCH = Experiment(
    name="adapt-fetch",
    title="Half of the state moves to other executors",
    note="A join on a local-cluster of two executors, each with a run cache of its own; rows of the state have 1,000 "
    "letters. After half of the epochs two of the four sites, one of each executor, change places: all their groups "
    "get new homes at once, and what is not in the caches there is fetched while epochs go on. Epochs are jobs of "
    "Spark. `stays`: the part of site steps that ran in the process of the step before.",
    columns=(
        Column("what", "epochs"),
        Column("epochs", "count"),
        Column("median", "median s", ".3f"),
        Column("p99", "p99 s", ".3f"),
        Column("most", "most s", ".3f"),
        Column("fetched_megabytes", "fetched MB", ",.0f"),
        Column("state_megabytes", "state MB", ",.0f"),
        Column("moved_megabytes", "moved MB", ",.0f"),
        Column("stays", "stays", ".3f"),
        Column("equal", "equal"),
    ),
    measure=measure,
)
