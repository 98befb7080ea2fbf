"""Trials: a query over rows in memory, run in some way in this process, compared with the batch answer."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

import penstock as ps
from penstock.api.handle import Run
from penstock.api.streams import Stream
from penstock.connectors.memory import MemoryConnector
from penstock.plan.logical import Node, Source
from penstock.progress.mark import Ordered, Slack
from penstock.testing.oracle import batch_answer
from penstock.testing.rows import assert_same_rows
from penstock.testing.runs import published_rows, runs_in_ways
from penstock.testing.source_rows import connector_of, sources_of, tables_of
from penstock.testing.ways import Way, random_ways
from penstock.types import conform
from tests.support.cases.input import Epochs, Part
from tests.support.late_answer import BY_WINDOW, expected, readable
from tests.support.queries.any_query import any_query
from tests.support.queries.data import MICROSECOND, SECOND, random_grain, random_origin, rows_from
from tests.support.trials.arrivals import late_arrivals, random_arrivals

LATE = "rows were taken for late that are not"


@dataclass(frozen=True)
class Trial:
    """A query whose sources hold their rows in memory, and how to run it: from one checkpoint, some epochs in each of
    the ways and to the end in the last. `order` and `grid` must not change the answer either, but are fixed for the
    life of a checkpoint. `lateness` is the rule by which rows are late, each batch being an epoch of its source; None:
    no row is late.

    Invariant: there is at least one way; all have the same `hash_bits`.
    """

    node: Node
    ways: tuple[Way, ...]
    order: str = "any"
    grid: str = "auto"
    lateness: str | None = None


def random_trial(random: Random, depth: int | None = None, most_rows: int = 120, lateness: str | None = None) -> Trial:
    """Draw up to three sources, divided differently so that one runs ahead of the others, and a query over them. With a
    rule of `lateness`, many rows arrive later than their source allows."""
    is_bigint = random.random() < 0.2
    origin, grain = random_origin(random), random_grain(random)
    count = random.choice([1, 1, 2, 2, 3])
    make = random_source if lateness is None else random_late_source
    sources = [make(random, name, origin, grain, most_rows, is_bigint) for name in "abc"[:count]]
    query = any_query(random, sources, random.randint(1, 4) if depth is None else depth)
    order, grid = random.choice(["any", "any", "any", "in"]), random.choice(["auto", "auto", "auto", "2x2", "3x2"])
    return Trial(query.node, random_ways(random), order, grid, lateness)


def random_source(
    random: Random, name: str, origin: int, grain: int, most_rows: int, is_bigint: bool = False
) -> Stream:
    """Draw a stream whose rows arrive within some slack."""
    slack = random.choice([0, SECOND, 15 * SECOND])
    rows = rows_from(random, random.choice([0, 1, 4, 20, most_rows, most_rows, most_rows]), origin, grain)
    arrivals = random_arrivals(random, rows, slack)
    connector = MemoryConnector(
        tuple(_with_numbers(batch) for batch in arrivals.batches) if is_bigint else arrivals.batches,
        splits_per_batch=random.choice([1, 2, 5]),
        one_batch_per_offer=random.random() < 0.7,
        substreams=arrivals.substreams,
        finishing=random.random() < 0.5,
    )
    progress = ps.ordered() if slack == 0 and random.random() < 0.5 else ps.slack(slack * MICROSECOND)
    return ps.read.source(connector, time="ts", progress=progress, name=name)


def random_late_source(
    random: Random, name: str, origin: int, grain: int, most_rows: int, is_bigint: bool = False
) -> Stream:
    """Draw a stream in which many rows are late, all within half a minute. Every batch is an epoch, so that the late
    rows are known."""
    coarse = random.choice([grain, SECOND, SECOND])
    count = random.choice([4, most_rows // 2, most_rows, most_rows, most_rows])
    rows = rows_from(random, count, origin, coarse, 30 * SECOND)
    arrivals = late_arrivals(random, rows)
    connector = MemoryConnector(
        tuple(_with_numbers(batch) for batch in arrivals.batches) if is_bigint else arrivals.batches,
        splits_per_batch=random.choice([1, 2, 5]),
        one_batch_per_offer=True,
        substreams=arrivals.substreams,
    )
    slack = random.choice([0, 0, SECOND, 2 * SECOND])
    rule = Ordered() if slack == 0 and random.random() < 0.5 else Slack(slack)
    if random.random() < 0.1:
        rule = replace(rule, allowed=random.choice([1, SECOND, 2 * SECOND]))
    return ps.read.source(connector, time="ts", progress=rule, name=name)


def _with_numbers(rows: pa.Table) -> pa.Table:
    """Convert the times to BIGINT."""
    return rows.set_column(0, "ts", rows.column("ts").cast(pa.int64()))


def difference(trial: Trial, folder: Path | None = None) -> str:
    """Run a trial and return how its output differs from the batch answer, or the error; empty if the trial passes."""
    with TemporaryDirectory(prefix="penstock-trial-") as temporary:
        try:
            _compare(trial, folder or Path(temporary))
        except AssertionError as error:
            return str(error) or "an assertion failed\n" + traceback.format_exc()
        except Exception:
            return traceback.format_exc()
    return ""


def _compare(trial: Trial, folder: Path) -> None:
    """Run a trial and fail if its output is not the expected one."""
    run = _run(trial, folder)
    rows = published_rows(Stream(trial.node), folder)
    if trial.lateness is None:
        return assert_same_rows(rows, batch_answer(trial.node))
    want = expected(trial.node, epochs_of(trial.node), trial.lateness)
    assert_same_rows(rows, want.rows, f"results by lateness of a {trial.lateness}")
    for name, late in want.late.items():
        assert_same_rows(readable(run.late_of(name)), late, f"late rows of `{name}`")


def epochs_of(node: Node) -> dict[str, Epochs]:
    """Return the rows of all sources by name, each batch an epoch."""
    return {name: _epochs_of_source(source) for name, source in sources_of(node).items()}


def _epochs_of_source(source: Source) -> Epochs:
    connector = connector_of(source)
    batches = [conform(batch, source.schema) for batch in connector.batches]
    names = [*connector.substreams, *[""] * (len(batches) - len(connector.substreams))]
    return tuple((Part(name, batch),) for name, batch in zip(names, batches, strict=True))


def _run(trial: Trial, folder: Path) -> Run:
    """Run a trial to the end of its input, with one start per way."""
    read, lateness = 0, trial.lateness or BY_WINDOW
    for run in runs_in_ways(
        Stream(trial.node), folder, trial.ways, order=trial.order, grid=trial.grid, lateness=lateness
    ):
        late = run.progress.late_rows if trial.lateness is None else 0
        assert late == 0, f"{late} {LATE}"
        read += run.progress.rows_in
    rows = sum(table.num_rows for table in tables_of(trial.node).values())
    assert read == rows, f"{read} rows were read, not {rows}"
    return run


def plainer_ways(ways: tuple[Way, ...]) -> Iterator[tuple[Way, ...]]:
    """Yield ways without a restart; then ways with one of the settings at its plainest value."""
    yield from ((way,) for way in ways if len(ways) > 1)
    plain: dict[str, Any] = {"sites": 1, "groups_per_site": 1, "items": None, "hash_bits": 64}
    plain |= {"item_rows": 1_000_000, "rows_per_epoch": 1_000_000}
    for name, value in plain.items():
        if any(getattr(way, name) != value for way in ways):
            yield tuple(replace(way, **{name: value}) for way in ways)
