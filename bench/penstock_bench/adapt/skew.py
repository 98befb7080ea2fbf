"""`adapt-skew`: keys whose hot range wanders, in one input of a join and in an aggregate, beside uniform keys."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from penstock_bench.adapt.plots import write_curves
from penstock_bench.adapt.skew_lanes import SPARK, SkewCase, SkewTrial, trials
from penstock_bench.experiments.experiment import Bar, Column, Experiment, Finding, Record, Setting
from penstock_bench.workloads.skewed import AGGREGATE, JOIN, KINDS, UNIFORM

TITLE = "Keys whose hot range wanders"
OWN = "even"
QUERIES = (JOIN, AGGREGATE)
POLICIES = ("static", OWN)
BAR = 0.7
ROWS, FEW_ROWS = 6_000_000, 400_000  # Spark's join gets few: it is so slow that all of them would take minutes


def measure(setting: Setting) -> Finding:
    cases = quick_cases() if setting.quick else all_cases()
    return finding(list(trials(setting, cases, 1 if setting.quick else setting.repeat)), setting)


def quick_cases() -> list[SkewCase]:
    return [SkewCase(query, kind, OWN, 1_000_000) for query in QUERIES for kind in (UNIFORM, KINDS[-1])]


def all_cases() -> list[SkewCase]:
    """Penstock also has the few rows that Spark has."""
    own = [SkewCase(query, kind, run, ROWS) for query in QUERIES for kind in KINDS for run in POLICIES]
    return [*own, *(SkewCase(JOIN, kind, run, FEW_ROWS) for kind in KINDS for run in (OWN, SPARK))]


def finding(found: Sequence[SkewTrial], setting: Setting) -> Finding:
    records = tuple(_record(own, found) for own in _grouped(found))
    bars = tuple(
        Bar(
            f"{record['query']}, {record['keys']} keys, `{OWN}`, of uniform",
            float(str(record["of_uniform"])),
            "at least",
            BAR,
        )
        for record in records
        if record["run"] == OWN and record["keys"] != UNIFORM and record["rows"] == max(t.rows for t in found)
    )
    return Finding(records, bars, all(trial.equal for trial in found), _pictures(records, setting))


def _grouped(found: Sequence[SkewTrial]) -> list[list[SkewTrial]]:
    """The trials of one case together, in the order of the cases."""
    grouped: dict[tuple[str, str, str, int], list[SkewTrial]] = {}
    for trial in found:
        grouped.setdefault((trial.query, trial.kind, trial.run, trial.rows), []).append(trial)
    return list(grouped.values())


def _record(own: Sequence[SkewTrial], found: Sequence[SkewTrial]) -> Record:
    first, rates = own[0], sorted(trial.rate for trial in own)
    rate = statistics.median(rates)
    return {
        "query": first.query,
        "keys": first.kind,
        "run": first.run,
        "rows": first.rows,
        "rate": rate,
        "least": rates[0],
        "most": rates[-1],
        "of_uniform": rate / _uniform_rate(first, found),
        "changes": statistics.median(trial.changes for trial in own),
        "equal": all(trial.equal for trial in own),
    }


def _uniform_rate(like: SkewTrial, found: Sequence[SkewTrial]) -> float:
    """The median over uniform keys, of the run of the same system that is fastest there: so `even` is not compared with
    a uniform case that it has made slow itself."""
    rates: dict[str, list[float]] = {}
    for trial in found:
        same = (trial.query, trial.rows, trial.run == SPARK) == (like.query, like.rows, like.run == SPARK)
        if same and trial.kind == UNIFORM:
            rates.setdefault(trial.run, []).append(trial.rate)
    return max(map(statistics.median, rates.values()))


def _pictures(records: Sequence[Record], setting: Setting) -> tuple[Path, ...]:
    if setting.pictures is None:
        return ()
    curves: dict[str, list[tuple[float, float]]] = {}
    for record in records:
        points = curves.setdefault(f"{record['query']}, {record['run']}, {record['rows']:,} rows", [])
        points.append((float(KINDS.index(str(record["keys"]))), float(str(record["of_uniform"]))))
    path = setting.pictures / "adapt-skew.png"
    labels = ("keys: " + ", ".join(f"{n} {kind}" for n, kind in enumerate(KINDS)), "rate, of uniform keys")
    return (write_curves(curves, TITLE, {}, path, labels, marker="o"),)


SKEW = Experiment(
    name="adapt-skew",
    title=TITLE,
    note="Two sites on two cores, nothing slept. join: equal keys, at most 1 s apart, the other input uniform; tumble: "
    "count and sum by key in windows of 10 s. 100,000 keys; another range of them is hot every 30 s of event "
    "time, ten in a run: b-model 0.7, 80/20 (b-model 0.8, `pareto`), Zipf 1.5. The rate is rows in plus rows out; "
    "medians. Epochs of 0.1 s and rounds of 0.4 s, for a hot range is soon gone. Spark: its own "
    "stream-stream join over few rows, once, with Penstock over the same rows.",
    columns=(
        Column("query", "query"),
        Column("keys", "keys"),
        Column("run", "run"),
        Column("rows", "rows a stream", ","),
        Column("rate", "rows/s", ",.0f"),
        Column("least", "least", ",.0f"),
        Column("most", "most", ",.0f"),
        Column("of_uniform", "of uniform", ".0%"),
        Column("changes", "changes", ".0f"),
        Column("equal", "equal"),
    ),
    measure=measure,
)
