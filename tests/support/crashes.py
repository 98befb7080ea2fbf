"""Crash tests: a query over batches with all kinds of rows, runs of it that die, and checks of what must hold
afterwards.

Every batch is one epoch in every way of running, so that crashes do not change which rows are late.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import penstock as ps
from penstock.api.streams import Stream
from penstock.api.write import Ready
from penstock.checkpoint import manifest as manifests
from penstock.checkpoint.store import KEPT_MANIFESTS
from penstock.connectors.source import BAD_ROWS_SCHEMA
from penstock.engine.driver.outputs import late_outputs
from penstock.engine.task.site.storing import HOSTS, OPEN_RUNS
from penstock.errors import StorageError
from penstock.operators.arrange import hashes_of
from penstock.plan.logical import Source
from penstock.state.hash_ranges import remaining
from penstock.state.model import Manifest, SubqueryState
from penstock.storage.faults import FaultPoint, InjectedCrash, arm, disarm
from penstock.testing import disordered
from penstock.testing.rows import assert_same_rows
from penstock.testing.source_rows import connector_of, sources_of
from penstock.testing.ways import Way, random_way
from penstock.types import conform
from tests.support.cases.input import Epochs, Part
from tests.support.late_answer import BY_WINDOW, Expected, expected, readable
from tests.support.queries.data import MICROSECOND, SCHEMA, SECOND, random_grain, random_origin, random_rows, rows_from
from tests.support.queries.operators import OperatorQuery, operator_queries

_WINDOWS = [(10, 10), (20, 3), (30, 1), (10, 5)]  # size and slide in seconds
_MEASURES = [
    {"total": ps.sum("i"), "mean": ps.avg("k")},
    {"least": ps.min("f"), "most": ps.max("ts")},
    {"distinct": ps.count_distinct("s"), "spread": ps.stddev("k")},
    {"first": ps.first("f"), "last": ps.last("s")},
]


@dataclass(frozen=True)
class Fault:
    """A fault: die the n-th time that `point` is reached; `action` as in `penstock.storage.faults`."""

    point: FaultPoint
    nth: int = 1
    action: str = "crash"

    def __str__(self) -> str:
        return f"{self.point.value}@{self.nth}:{self.action}"


# Those that every run reaches: a clean-up needs parked state, and `test_parking` has some.
USUAL_POINTS = [point for point in FaultPoint if point is not FaultPoint.SITE_CLEANED]


def random_fault(random: Random) -> Fault:
    """Draw a fault at any point, mostly at an early time."""
    nth = random.choice([1, 2, 4, 8, random.randint(1, 40)])
    return Fault(random.choice(list(FaultPoint)), nth, random.choice(["crash", "crash", "error"]))


@dataclass(frozen=True)
class Place:
    """The folders in which a run keeps its checkpoint and publishes its rows."""

    root: Path

    @property
    def checkpoint(self) -> Path:
        return self.root / "ck"

    @property
    def results(self) -> Path:
        return self.root / "out"


@dataclass(frozen=True)
class Scenario:
    """A query over sources that hold batches in memory, one per epoch. Some rows have no time (bad), some arrive more
    than the slack of their source behind (late). `settings` are those that are fixed for the life of a checkpoint."""

    stream: Stream
    settings: Mapping[str, Any] = field(default_factory=dict)

    def into(self, place: Place) -> Ready:
        """Return the query with its results in `place`."""
        return self.stream.to.files(str(place.results))

    @property
    def batches(self) -> tuple[pa.Table, ...]:
        """Return the batches of the first source."""
        return connector_of(next(iter(self._sources.values()))).batches

    @cached_property
    def late(self) -> dict[str, pa.Table]:
        """Return the expected late rows of each source, by the name of its output."""
        outputs = late_outputs(tuple(self._sources))
        return dict(zip(outputs, self._expected.late.values(), strict=True))

    @property
    def results(self) -> pa.Table:
        """Return the expected results."""
        return self._expected.rows

    @cached_property
    def bad(self) -> list[tuple[str, int]]:
        """Return batch and row number of every row without a time."""
        return sorted(place for source in self._sources.values() for place in _without_time(source))

    @cached_property
    def _sources(self) -> dict[str, Source]:
        return sources_of(self.stream.node)

    @cached_property
    def _expected(self) -> Expected:
        epochs = {name: _epochs(source) for name, source in self._sources.items()}
        return expected(self.stream.node, epochs, self.settings.get("lateness", BY_WINDOW))


def _epochs(source: Source) -> Epochs:
    return tuple((Part(source.name, conform(batch, source.schema)),) for batch in connector_of(source).batches)


def _without_time(source: Source) -> Iterator[tuple[str, int]]:
    """Yield batch and row number of the rows of a source without a time."""
    for n, batch in enumerate(connector_of(source).batches):
        nulls = pc.is_null(batch.column(source.time)).to_pylist()
        yield from ((f"batch {n}", row + 1) for row, null in enumerate(nulls) if null)


def random_scenario(random: Random, batches: int = 9, levels: int | None = None, size: int | None = None) -> Scenario:
    """Draw a scenario that reaches every fault point, most of them many times: only one batch is empty, windows close
    in every epoch, and rows of several epochs stay in the state."""
    return Scenario(_query(random, disorderly_source(random, _many_rows(random, 64), batches, "batches"), levels, size))


def operator_scenario(random: Random, query: OperatorQuery, batches: int = 6, **settings: Any) -> Scenario:
    """Draw a scenario for one of `operator_queries(SECOND)` over two sources with rows of the same minute; one source
    may end before the other."""
    origin, grain, sources = random_origin(random), random_grain(random), []
    for name in "ab":
        rows = rows_from(random, random.choice([24, 40]), origin, grain)
        sources.append(disorderly_source(random, rows, random.choice([batches, batches - 2]), name))
    return Scenario(query(*sources), settings)


def disorderly_source(random: Random, rows: pa.Table, batches: int, name: str) -> Stream:
    """Create a source from rows in order of time: batches with late and malformed rows among them."""
    slack = random.choice([0, SECOND, 5 * SECOND])
    arrived = disordered(random, rows, slack + 6 * SECOND)
    parts = _batches(random, _with_nulls(random, arrived), batches)
    splits = random.choice([1, 2, 5])
    return ps.read.batches(parts, time="ts", progress=ps.slack(slack * MICROSECOND), splits_per_batch=splits, name=name)


def _many_rows(random: Random, most: int) -> pa.Table:
    """Draw exactly `most` rows."""
    while (rows := random_rows(random, most)).num_rows < most:
        pass
    return rows


def _with_nulls(random: Random, rows: pa.Table) -> pa.Table:
    """Set the time of some rows to null."""
    present = pa.array([random.random() > 0.05 for _ in range(rows.num_rows)])
    return rows.set_column(0, SCHEMA.field("ts"), pc.if_else(present, rows.column("ts"), None))


def _batches(random: Random, rows: pa.Table, count: int) -> tuple[pa.Table, ...]:
    """Divide rows into equal batches with an empty one among them, perhaps the last: an epoch with punctuation only."""
    size = -(-rows.num_rows // (count - 1))
    parts = [rows.slice(start, size) for start in range(0, rows.num_rows, size)]
    parts.insert(random.randint(1, len(parts)), rows.slice(0, 0))
    return tuple(parts)


def _query(random: Random, stream: Stream, levels: int | None, seconds: int | None) -> Stream:
    size, slide = (seconds, seconds) if seconds else random.choice(_WINDOWS)
    keys = random.sample(["k", "s", "i"], random.randint(1, 2))
    window = ps.sliding(f"{size}s", every=f"{slide}s", offset=random.choice(["0s", "500ms"]))
    result = stream.group_by(*keys).window(window).agg(n=ps.count(), **random.choice(_MEASURES))
    if (levels or random.choice([1, 1, 2])) == 2:
        result = result.group_by().window(ps.tumbling("10s")).agg(rows=ps.count(), most=ps.max("n"))
    return result


def another_way(random: Random, way: Way) -> Way:
    """Draw another way to continue from a checkpoint; the hash is fixed by the checkpoint."""
    return replace(random_way(random), hash_bits=way.hash_bits)


def launch(scenario: Scenario, place: Place, way: Way, **options: object) -> ps.Run:
    """Start a scenario in this process."""
    forget_runs(place)
    fixed = {"master": "inline", "epoch": "1ms", "on_bad_row": "divert", **scenario.settings}
    return scenario.into(place).start(str(place.checkpoint), **{**fixed, **way.settings(), **options})


def forget_runs(place: Place) -> None:
    """Close everything that this process has open, as after a restart."""
    runs = place.checkpoint / "runs"
    OPEN_RUNS.keep_only(runs, ())
    for known in [known for known in HOSTS if known[1] == runs]:
        del HOSTS[known]


def run_until_death(scenario: Scenario, place: Place, way: Way, fault: Fault, **options: object) -> str:
    """Run with an armed fault. Return where the run died: "recovery" or "epochs"; empty if it reached its end."""
    arm(fault.point, fault.nth, fault.action)
    deadly = InjectedCrash if fault.action == "crash" else StorageError
    try:
        run = launch(scenario, place, way, **options)
    except deadly:
        return "recovery"
    else:
        try:
            run.wait()
        except deadly:
            return "epochs"
    finally:
        disarm()
    return ""


def die_again_and_again(scenario: Scenario, place: Place, way: Way, random: Random, deaths: int) -> tuple[Way, str]:
    """Run into `deaths` random faults, each time in another way. Return the way to continue, and a log of what
    happened."""
    story = []
    for fault in [random_fault(random) for _ in range(deaths)]:
        died = run_until_death(scenario, place, way, fault)
        story.append(f"{fault} {died or 'not reached'}, {way}")
        way = another_way(random, way)
    return way, "\n".join([*story, f"then {way}, {scenario.settings}", scenario.stream.explain()])


def finish(scenario: Scenario, place: Place, way: Way, **options: object) -> ps.Run:
    """Run without faults to the end of the input."""
    run = launch(scenario, place, way, **options).wait()
    assert run.progress.state == "finished"
    return run


def assert_exact(scenario: Scenario, place: Place, context: str = "") -> None:
    """Check that the published rows are the batch answer, and that no temporary files are left."""
    assert_same_rows(published(place.results, scenario.stream.schema), scenario.results, f"results, {context}")
    assert_late_rows(scenario, place, context)
    bad = published(place.checkpoint / "bad", BAD_ROWS_SCHEMA)
    assert sorted(zip(*(bad.column(n).to_pylist() for n in ("file", "line")), strict=True)) == scenario.bad, context
    assert_tidy(place.checkpoint, [place.results, *(place.checkpoint / name for name in (*scenario.late, "bad"))])


def assert_late_rows(scenario: Scenario, place: Place, context: str = "") -> None:
    """Check that the published late rows are those of the batch answer, with the windows that missed them."""
    for output, late in scenario.late.items():
        found = [pq.read_table(file) for file in sorted((place.checkpoint / output).glob("*.parquet"))]
        got = readable(pa.concat_tables(found)) if found else late.schema.empty_table()
        assert_same_rows(got, late, f"{output} rows, {context}")


def kept_manifests(checkpoint: Path) -> list[Manifest]:
    """Return the manifests of a checkpoint, oldest first."""
    folder = checkpoint / "manifests"
    return [manifests.read(folder, epoch) for epoch in manifests.epochs(folder)]


def newest_manifest(checkpoint: Path) -> Manifest:
    """Return the newest manifest of a checkpoint."""
    return kept_manifests(checkpoint)[-1]


def assert_tidy(checkpoint: Path, outputs: Iterable[Path]) -> None:
    """Check that the newest manifests exist without a gap, and that exactly the files they name exist, complete."""
    kept = kept_manifests(checkpoint)
    last = kept[-1].epoch
    assert [m.epoch for m in kept] == list(range(max(0, last - KEPT_MANIFESTS + 1), last + 1))
    assert not list((checkpoint / "manifests").glob(".*")), "a temporary manifest is left"
    named = {name for m in kept for name in m.run_names()}
    assert {p.name for p in (checkpoint / "runs").iterdir()} == named
    for folder in outputs:
        left = [p.name for p in (folder / "_penstock").iterdir() if not p.name.startswith("published-")]
        assert not left, "staged files are left"
    for state in (sub for m in kept for sub in m.subqueries):
        assert_homes(state, checkpoint / "runs")


def assert_homes(state: SubqueryState, runs: Path) -> None:
    """Check that every site holds marks of all its groups, and rows and marks of no others."""
    assert len(state.sites) == state.directory.sites
    for number, site in enumerate(state.sites):
        home = state.directory.ranges_of(number)
        marked = [m.range for m in site.marks]
        assert all(a.high <= b.low for a, b in pairwise(marked)), "a hash has two marks"
        assert not remaining(home, marked), "the marks of a site do not cover its groups"
        for piece in site.all_slices():
            hashes = hashes_of(OPEN_RUNS.read(runs, piece))
            assert sum(len(hashes[part.rows(hashes)]) for part in home) == len(hashes), "a row away from home"


def published(folder: Path, schema: pa.Schema) -> pa.Table:
    """Return the rows of a folder as a user reads them."""
    return pa.concat_tables([schema.empty_table(), *(pq.read_table(f) for f in sorted(folder.glob("*.parquet")))])


def run_in_child(seed: str, root: str, way: Way, fault: str | None, operator: str | None = None) -> None:
    """Run the scenario of a seed with a fault in the environment. The target of a process that is to die."""
    if fault is not None:
        os.environ["PENSTOCK_FAULT"] = fault
    finish(seeded_scenario(seed, operator), Place(Path(root)), way)


def seeded_scenario(seed: str, operator: str | None = None) -> Scenario:
    """Return the scenario of a seed, the same in every process: of aggregates, or of one of the operators."""
    if operator is None:
        return random_scenario(Random(seed))
    return operator_scenario(Random(seed), operator_queries(SECOND)[operator])
