"""The queries of the golden checkpoints, over rows that follow from a formula, and how their runs are begun.

A golden checkpoint is half a run, written by the first version that wrote its format. Later versions must continue it.
So nothing here may change once a checkpoint is recorded: not the rows, not the queries.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa

import penstock as ps
from penstock.api.streams import Stream
from penstock.api.write import Ready
from penstock.arrow import schema_of
from penstock.balance.decisions import Park, Spread
from penstock.checkpoint.format import FORMAT
from penstock.engine.driver.executor import InlineExecutor
from penstock.kernels.hash import hash_columns
from penstock.state.hash_ranges import point
from penstock.testing.ways import Way
from tests.support.crashes import Place, Scenario
from tests.support.looping import looping

FOLDER = Path(__file__).parents[1] / "golden"
PRESENT = FOLDER / f"format-{FORMAT}"
EPOCHS = 3  # of the recorded half
HOT = 7  # the key of every second row
_SECOND = 1_000_000
_BATCHES, _BATCH = 8, 6


class GoldenPlace(Place):
    """The folder of a checkpoint that holds its results, too: their path is part of no fingerprint."""

    @property
    def results(self) -> Path:
        return self.checkpoint / "results"


@dataclass(frozen=True)
class GoldenScenario(Scenario):
    """A query whose results are published inside its checkpoint."""

    def into(self, place: Place) -> Ready:
        return self.stream.to.files("")


@dataclass(frozen=True)
class GoldenCase:
    """A golden checkpoint: its query, the way in which its first half was run, and whether a hot key was spread, and
    its group parked twice."""

    scenario: GoldenScenario
    way: Way
    spread: bool = False
    parked: bool = False

    @cached_property
    def hot(self) -> Spread:
        """Return the change that spreads the hot key over both sites."""
        return Spread(int(hash_columns([pa.array([HOT], pa.int64())], 64)[0]), 0, (0, 1))


def source(name: str, shift: int) -> Stream:
    """Return a source of eight batches, one row per second. Every 11th row has no time, every 13th is late."""
    rows = [_row(number, shift) for number in range(_BATCHES * _BATCH)]
    schema = schema_of({"ts": pa.timestamp("us"), "k": pa.int64(), "s": pa.string(), "i": pa.int64()})
    columns = [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), schema, strict=True)]
    table = pa.table(columns, schema=schema)
    parts = [table.slice(first, _BATCH) for first in range(0, table.num_rows, _BATCH)]
    return ps.read.batches(parts, time="ts", progress=ps.slack("3s"), splits_per_batch=2, name=name)


def _row(number: int, shift: int) -> tuple[int | None, int | None, str, int]:
    behind = 25 if number % 13 == 12 else 2 * (number % 2)  # seconds: too many, or within the slack
    time = None if number % 11 == 10 else (100 + shift + number - behind) * _SECOND
    key = HOT if number % 2 else (None if number % 10 == 8 else number % 5)
    return time, key, f"word {number % 7}", number * (-1) ** number


def golden_cases() -> dict[str, GoldenCase]:
    """Return the golden checkpoints of the present format by the names of their folders."""
    a, b = source("a", 0), source("b", 3)
    measures = {"n": ps.count(), "total": ps.sum("i"), "words": ps.count_distinct("s"), "first": ps.first("s")}
    windows = a.group_by("k").window(ps.sliding("10s", every="5s")).agg(**measures)
    sessions = a.group_by("s").window(ps.session("4s")).agg(**measures)
    joined = a.join(b, "k", within=("4s", "8s"), kind="left")
    theta = a.theta_join(b, ps.col("i") < ps.col("right_i"), within=("1s", "2s"))
    put_off = Way(sites=2, groups_per_site=2, flush="slow", max_delay=4)
    little = Way(sites=2, groups_per_site=2, items=1, item_rows=2)  # so that much is pending
    return {
        "windows": GoldenCase(GoldenScenario(windows), put_off),
        "sessions": GoldenCase(GoldenScenario(sessions), put_off),
        "join": GoldenCase(GoldenScenario(joined), little, spread=True),
        "parked-join": GoldenCase(GoldenScenario(joined), Way(sites=2, groups_per_site=2), parked=True),
        "theta-join-in-order": GoldenCase(GoldenScenario(theta, {"order": "in"}), little),
    }


def begin(case: GoldenCase, place: Place) -> None:
    """Run the first half of a golden case."""
    with looping(case.scenario, place, case.way, InlineExecutor()) as (loop, _):
        for epoch in range(EPOCHS):
            if case.spread and epoch == 1:
                refused = loop.change(0, case.hot)
                assert refused is None, refused
            if case.parked and epoch:
                (group,) = (one for one in loop.directories[0].groups if one.range.intersect(point(case.hot.hash)))
                loop.change(0, Park(group))
            loop.step()


def copied(name: str, root: Path, folder: Path = PRESENT) -> GoldenPlace:
    """Copy a golden checkpoint into a place below `root`."""
    place = GoldenPlace(root)
    shutil.copytree(folder / name, place.checkpoint)
    return place
