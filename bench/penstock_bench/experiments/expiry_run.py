"""The process of `expiry`: a band join with much state, of which nothing expires; what does looking for it cost?"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import penstock as ps
from penstock.engine.driver.loop import EpochLoop
from penstock.engine.task.site.compacting import Compaction
from penstock.engine.task.site.storing import Storage, of_port
from penstock.operators.protocol import Operator
from penstock.state.model import SiteState, least
from penstock.state.runs import Slice
from penstock_bench.experiments.part import serve
from penstock_bench.experiments.scripted import ScriptedConnector, Step
from penstock_bench.experiments.stepped import stepped, stored_rows

SECOND = 1_000_000
BAND = "1 day"
SPAN = 3_600 * SECOND  # of the state, in event time: far less than the band
TIMES = 50


@dataclass(frozen=True)
class Question:
    """`state_rows` come in `epochs` epochs; then come `small` epochs of `small_rows` rows."""

    state_rows: int
    epochs: int
    small: int
    small_rows: int
    master: str
    folder: str


@dataclass(frozen=True)
class Answer:
    """`expiry` is the time that looking for expired state takes at the slowest site, `epoch` that of a small epoch."""

    state_rows: int
    runs: int
    expiry: float
    epoch: float
    rows_out: int


def measure(question: Question) -> Answer:
    scripts = [_script(question, side) for side in range(2)]
    a, b = (
        ps.read.source(ScriptedConnector(script, name), time="ts", progress=ps.ordered(), name=name)
        for script, name in zip(scripts, "ab", strict=True)
    )
    joined = a.join(b, on="k", within=BAND)
    ready = joined.to.files(str(Path(question.folder) / "rows"))
    with stepped(ready, Path(question.folder) / "checkpoint", master=question.master, sites=2) as loop:
        for _ in range(question.epochs):
            loop.step()
        seconds = [_timed(loop.step) for _ in range(question.small)]
        expiry = max(_expiry_seconds(loop, site) for site in range(2))
        return Answer(stored_rows(loop), _runs(loop), expiry, statistics.median(seconds), loop.manifest.totals.rows_out)


def _script(question: Question, side: int) -> tuple[Step, ...]:
    """Rows without a partner: the two sides have no key in common."""
    rows = question.state_rows // 2 // question.epochs
    pace, first = SPAN // question.epochs, side * question.state_rows
    state = [Step("x", rows, n * pace, (n + 1) * pace, first, question.state_rows) for n in range(question.epochs)]
    small = [
        Step("x", question.small_rows // 2, SPAN + n * SECOND, SPAN + (n + 1) * SECOND, first, question.state_rows)
        for n in range(question.small)
    ]
    return *state, *small


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _runs(loop: EpochLoop) -> int:
    return max(len(site.slices) for site in loop.manifest.subqueries[0].sites)


def _expiry_seconds(loop: EpochLoop, site: int) -> float:
    """As at the end of a site step without new rows: all ports, compaction settled, nothing expired."""
    state, operator = loop.manifest.subqueries[0].sites[site], loop.query.program.subqueries[0].operator
    storage = Storage(loop.checkpoint.runs, loop.manifest.epoch, f"expiry-{site}")
    settled = [_settled(storage, operator, state, port) for port in range(operator.ports)]
    return statistics.median(
        _timed(lambda: [_looked_through(storage, operator, state, p, kept) for p, kept in enumerate(settled)])
        for _ in range(TIMES)
    )


def _settled(storage: Storage, operator: Operator, state: SiteState, port: int) -> list[Slice]:
    """The slices of a port once there is nothing left to compact."""
    slices = of_port(state.slices, port)
    while (compacted := _looked_through(storage, operator, state, port, slices)) != slices:
        slices = compacted
    return slices


def _looked_through(
    storage: Storage, operator: Operator, state: SiteState, port: int, slices: list[Slice]
) -> list[Slice]:
    below = operator.expired_below(port, least(state.marks, operator.tracks))
    return Compaction(storage, port, operator.combine, below, operator.span(port), lambda: True).run(slices)


if __name__ == "__main__":
    serve(Question, measure)
