"""`epoch-cost`: what an epoch costs beyond what Spark charges for any two-stage job."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from penstock_bench.experiments import epoch_script as kinds
from penstock_bench.experiments.epoch_cost_run import Done, Order
from penstock_bench.experiments.epoch_script import Sizes, script
from penstock_bench.experiments.experiment import Bar, Column, Experiment, Finding, Record, Setting, Value
from penstock_bench.experiments.part import Part

BARE = "bare"
MEASURED = 50
WARM = 5
QUICK = Sizes(state=20_000, rows=1_000, few=100)
EXCHANGES = ("direct", "spark")
TITLES = {
    BARE: "a two-stage job of nothing",
    kinds.ROWS: "an epoch of {rows:,} rows",
    kinds.CLOSING: "no rows, a window of {few:,} rows closes",
    kinds.FEW: "an epoch of {few:,} rows",
    kinds.CLOSING_MANY: "no rows, a window of {rows:,} rows closes",
}

BARS = (
    (kinds.ROWS, "an epoch of rows, of a job of nothing", 1.5),
    (kinds.CLOSING, "an epoch that only closes, of a job of nothing", 1.2),
)

Do = Literal["begin", "step", "end"]


@dataclass(frozen=True)
class Answer:
    """Seconds by what was measured, in order, and what the end of the epochs said."""

    seconds: Mapping[str, Sequence[float]]
    end: Done


def measure(setting: Setting) -> Finding:
    sizes, cycles = (QUICK, 5) if setting.quick else (Sizes(), MEASURED)
    return finding({exchange: _measured(setting, sizes, cycles, exchange) for exchange in EXCHANGES}, sizes)


def _measured(setting: Setting, sizes: Sizes, cycles: int, exchange: str) -> Answer:
    folder = setting.folder("epoch-cost")
    setting.tell(f"exchange {exchange}: {cycles} cycles of four epochs, {sizes.state:,} rows of state ...")
    with (
        tempfile.TemporaryDirectory(dir=folder) as scratch,
        Part("penstock_bench.experiments.epoch_cost_run", folder / "epochs.log", setting.cores) as epochs,
        Part("penstock_bench.experiments.bare_job_run", folder / "bare.log", setting.cores) as bare,
    ):

        def tell(do: Do) -> Done:
            return epochs.ask(Order(do, sizes, WARM + cycles, setting.master, exchange, scratch), Done)

        return in_turns(sizes, cycles, tell, partial(bare.ask, setting.master, float))


def in_turns(
    sizes: Sizes, cycles: int, tell: Callable[[Do], Done], bare: Callable[[], float], warm: int = WARM
) -> Answer:
    """A job of nothing before every epoch that has a bar, so that both see the same machine; the `warm` first cycles do
    not count."""
    seconds: dict[str, list[float]] = {kind: [] for kind in TITLES}
    tell("begin")
    cycle = 0
    for one in script(sizes, warm + cycles):
        cycle += one.kind == kinds.ROWS
        jobs = [(BARE, bare())] if one.kind in (kinds.ROWS, kinds.CLOSING) else []
        for kind, taken in [*jobs, (one.kind, tell("step").seconds)]:
            if cycle > warm:
                seconds[kind].append(taken)
    return Answer(seconds, tell("end"))


def finding(answers: Mapping[str, Answer], sizes: Sizes) -> Finding:
    """The bars are for the exchange that Penstock chooses itself, which comes first."""
    records = tuple(record for name, answer in answers.items() for record in _records(name, answer, sizes))
    ratios = {record["kind"]: record["ratio"] for record in reversed(records)}
    bars = tuple(Bar(what, _number(ratios[kind]), "at most", bound) for kind, what, bound in BARS)
    return Finding(records, bars, all(_right(answer.end, sizes) for answer in answers.values()))


def _right(end: Done, sizes: Sizes) -> bool:
    return end.equal and end.late_rows == 0 and end.state_rows >= sizes.state


def _records(exchange: str, answer: Answer, sizes: Sizes) -> Iterator[Record]:
    bare = statistics.median(answer.seconds[BARE])
    for kind, title in TITLES.items():
        taken = sorted(answer.seconds[kind])
        yield {
            "exchange": exchange,
            "kind": kind,
            "what": title.format(rows=sizes.rows, few=sizes.few),
            "milliseconds": statistics.median(taken) * 1e3,
            "least": taken[0] * 1e3,
            "most": taken[-1] * 1e3,
            "ratio": statistics.median(taken) / bare,
            "count": len(taken),
        }


def _number(value: Value) -> float:
    assert isinstance(value, float)
    return value


EPOCH_COST = Experiment(
    name="epoch-cost",
    title="An epoch beside a job of nothing",
    note="Medians, taken in turns: the jobs of nothing, of two stages of two tasks, in a process beside that of "
    "the epochs, with the same settings of Spark. Two sites, a tumbling window of 10 s, a million rows of "
    "state in a window that stays open. With exchange spark an epoch is a job of two stages itself; the bars "
    "are for exchange direct, the default.",
    columns=(
        Column("exchange", "exchange"),
        Column("what", "what"),
        Column("milliseconds", "ms", ".1f"),
        Column("least", "least", ".1f"),
        Column("most", "most", ".1f"),
        Column("count", "times"),
        Column("ratio", "ratio", ".2f"),
    ),
    measure=measure,
)
