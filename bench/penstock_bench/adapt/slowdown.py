"""Sites that are slower than they need be. The engine knows nothing of it: a site step is given an operator that sleeps
after each portion.

A file holds the `Slowdown` of all sites. It may be replaced while a query runs: every site step looks at it again.
"""

from __future__ import annotations

import copy
import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

import msgspec
import pyarrow as pa

from penstock.clock import Clock
from penstock.engine.task import level
from penstock.engine.task.site.step import site_step
from penstock.engine.wire.blob import Blob
from penstock.engine.wire.job import EpochJob, SiteResult
from penstock.errors import PenstockError
from penstock.operators.protocol import UNCOUNTED, Operator, OutputCounts, Portion, WorkResult
from penstock.plan.program import Program

VARIABLE = "PENSTOCK_BENCH_SLOWDOWN"  # tells workers where the file is
DAEMON = "penstock_bench.adapt.slowable_daemon"
INLINE = "inline"
_DAEMON_PROPERTY = "spark.python.daemon.module"


@dataclass(frozen=True)
class Slowed:
    """A site is slowed from `begin` to `end`, in seconds of the experiment: with each portion it takes `again` times
    the time that the portion took already."""

    site: int
    begin: float
    end: float
    again: float = 1.0


@dataclass(frozen=True)
class Slowdown:
    """Every row that is worked on takes `row_seconds` more. The experiment began at `began`, by the system's clock."""

    began: float
    row_seconds: float = 0.0
    slowed: tuple[Slowed, ...] = ()

    def pause(self, site: int, rows: int, took: float, now: float) -> float:
        """Return how long a site sleeps after a portion of so many rows that took `took` seconds."""
        cost, at = rows * self.row_seconds, now - self.began
        again = sum(one.again for one in self.slowed if one.site == site and one.begin <= at < one.end)
        return cost + (cost + took) * again


@contextmanager
def slowable(master: str) -> Iterator[Path]:
    """Let the sites of queries on `master` be slowed, and give the file that says how. Without Spark the sites are in
    this process; otherwise Spark is started, once, with workers whose sites can be slowed."""
    path = Path(tempfile.gettempdir()) / f"penstock-slowdown-{os.getpid()}.json"  # workers are told once where it is
    os.environ[VARIABLE] = str(path)
    try:
        if master == INLINE:
            make_sites_slowable()
        else:
            _start_spark(master)
        yield path
    finally:
        level.site_step = site_step  # type: ignore[attr-defined]
        path.unlink(missing_ok=True)


def _start_spark(master: str) -> None:
    from penstock.spark.session import spark_context

    context = spark_context(master, options={_DAEMON_PROPERTY: DAEMON})
    if context.getConf().get(_DAEMON_PROPERTY) != DAEMON:
        raise PenstockError(
            "the sites of this Spark cannot be slowed",
            detail="it was started before the experiment, with other workers",
            hint="run the experiment in a process of its own",
        )


def make_sites_slowable() -> None:
    """Put the step of a slowed site in the place of the engine's, in this process and in those forked from it."""
    level.site_step = slowed_site_step  # type: ignore[attr-defined]


def slowed_site_step(job: EpochJob, subquery: int, site: int, blobs: Iterable[Blob], clock: Clock) -> SiteResult:
    """Run a site step as the engine does, with an operator that is as slow as the slowdown of now says."""
    slowdown = current_slowdown()
    if slowdown is not None:
        job = replace(job, program=with_work(job.program, subquery, partial(_work_slowly, slowdown, site)))
    return site_step(job, subquery, site, blobs, clock)


def write_slowdown(slowdown: Slowdown, path: Path) -> None:
    """Replace the slowdown of all processes that look at this file."""
    fresh = path.with_suffix(".new")
    fresh.write_bytes(msgspec.json.encode(slowdown))
    fresh.replace(path)


def current_slowdown() -> Slowdown | None:
    """Return the slowdown of now, or None if there is none."""
    name = os.environ.get(VARIABLE)
    if not name:
        return None
    try:
        return _read(name, os.stat(name).st_mtime_ns)
    except FileNotFoundError:
        return None


@lru_cache(maxsize=1)
def _read(name: str, changed: int) -> Slowdown:
    return msgspec.json.decode(Path(name).read_bytes(), type=Slowdown)


def with_work(program: Program, subquery: int, work: partial[WorkResult]) -> Program:
    """Return the program with the `work` of one operator replaced. The operator stays of its class, for the engine asks
    operators for what they can do."""
    parts = list(program.subqueries)
    operator = copy.copy(parts[subquery].operator)
    vars(operator)["work"] = partial(work, parts[subquery].operator)
    parts[subquery] = replace(parts[subquery], operator=operator)
    return replace(program, subqueries=tuple(parts))


def _work_slowly(
    slowdown: Slowdown, site: int, operator: Operator, portion: Portion, counts: OutputCounts = UNCOUNTED
) -> WorkResult:
    began, done = time.perf_counter(), operator.work(portion, counts)
    rows = operator.rows_to_do(portion)

    def results() -> Iterator[pa.Table]:
        yield from done.results
        time.sleep(slowdown.pause(site, rows, time.perf_counter() - began, time.time()))

    return replace(done, results=results())
