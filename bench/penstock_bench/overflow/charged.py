"""Sites whose work takes simulated time: so much for a row and for a result, and more at sites that are slowed (Flux,
section 3, simulates its cluster, too). The engine knows nothing of it: a site step is given an operator that moves the
clock of the tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from penstock.clock import Clock
from penstock.engine.task import level
from penstock.engine.task.site.step import site_step
from penstock.engine.wire.blob import Blob
from penstock.engine.wire.job import EpochJob, SiteResult
from penstock.operators.protocol import UNCOUNTED, Operator, OutputCounts, Portion, WorkResult
from penstock_bench.adapt.slowdown import with_work
from penstock_bench.overflow.clocks import HandClock


@dataclass(frozen=True)
class Charges:
    """A row takes `row` seconds and a result `result`; at the sites `slowed`, from the epoch `since` on, `times` as
    long."""

    row: float
    result: float
    slowed: tuple[int, ...] = ()
    since: int = 0
    times: float = 2.0

    def factor(self, site: int, epoch: int) -> float:
        return self.times if site in self.slowed and epoch >= self.since else 1.0


@contextmanager
def charged(charges: Charges, clock: HandClock) -> Iterator[None]:
    """Let all sites of this process take simulated time."""
    level.site_step = partial(_charged_site_step, charges, clock)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        level.site_step = site_step  # type: ignore[attr-defined]


def _charged_site_step(
    charges: Charges, hand: HandClock, job: EpochJob, subquery: int, site: int, blobs: Iterable[Blob], clock: Clock
) -> SiteResult:
    """Run a site step as the engine does, with an operator that moves the clock."""
    factor = charges.factor(site, job.epoch)
    costs = (charges.row * factor, charges.result * factor)
    changed = replace(job, program=with_work(job.program, subquery, partial(_work, hand, costs)))
    return site_step(changed, subquery, site, blobs, clock)


def _work(
    clock: HandClock,
    costs: tuple[float, float],
    operator: Operator,
    portion: Portion,
    counts: OutputCounts = UNCOUNTED,
) -> WorkResult:
    done = operator.work(portion, counts)
    clock.now += operator.rows_to_do(portion) * costs[0]

    def results() -> Iterator[pa.Table]:
        for table in done.results:
            clock.now += table.num_rows * costs[1]
            yield table

    return replace(done, results=results())
