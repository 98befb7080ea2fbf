"""The process of `adapt-fetch`: a join with much state on executors with caches of their own; half of it moves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

import penstock as ps
from penstock.api.write import Ready
from penstock.balance.decisions import Move
from penstock.engine.driver.loop import EpochLoop, Outcome
from penstock.events import EpochTimed, Event, TaskTimed
from penstock.spark.session import spark_context
from penstock_bench.adapt.fetching_rows import NARROW, WIDE, Lot, LotsConnector, narrow_lots, wide_lots
from penstock_bench.check.digest import Digest, digest, parquet
from penstock_bench.experiments.part import serve
from penstock_bench.experiments.stepped import stepped

SITES = 4  # two on each executor: one of each changes places
DEADLINE = "1s"


@dataclass(frozen=True)
class Question:
    """`state_rows` wide rows come in `filling` epochs; then `epochs` epochs without a move, and as many after one, each
    with `wide` new wide rows and `narrow` rows that look some up."""

    master: str
    state_rows: int
    letters: int
    filling: int
    epochs: int
    wide: int
    narrow: int
    folder: str


@dataclass(frozen=True)
class Answer:
    """The seconds of the epochs before and after the move, and the bytes that each of them fetched. `stays`: the part
    of all steps of sites in these epochs that ran in the process of the step before."""

    before: tuple[float, ...]
    after: tuple[float, ...]
    fetched_before: tuple[int, ...]
    fetched_after: tuple[int, ...]
    state_bytes: int
    moved_bytes: int
    stays: float
    equal: bool


def measure(question: Question) -> Answer:
    wide = wide_lots(_rows(question), question.letters)
    narrow = narrow_lots(wide, question.narrow)
    timed: list[EpochTimed] = []

    def observe(event: Event) -> None:
        if isinstance(event, EpochTimed):
            timed.append(event)

    folder = Path(question.folder)
    options = {"master": question.master, "sites": SITES, "deadline": DEADLINE, "cache": "executor"}
    with stepped(_query(wide, narrow, folder), folder / "checkpoint", observe, **options) as loop:
        _step(loop, question.filling + question.epochs)
        state, moved = _bytes(loop, range(SITES)), _exchange_homes(loop, timed[-1])
        _step(loop, question.epochs)
        while loop.step() is Outcome.WORKED:
            pass
    spark_context(question.master).stop()
    return _answer(question, timed, state, moved, _equal(wide, narrow, folder / "rows"))


def _rows(question: Question) -> list[int]:
    """How many wide rows each epoch has."""
    each = -(-question.state_rows // question.filling)
    return [each] * question.filling + [question.wide] * (2 * question.epochs)


def _query(wide: Sequence[Lot], narrow: Sequence[Lot], folder: Path) -> Ready:
    a, b = (
        ps.read.source(LotsConnector(tuple(lots), name, schema), time="ts", progress=ps.ordered(), name=name)
        for lots, name, schema in ((wide, "a", WIDE), (narrow, "b", NARROW))
    )
    return a.join(b, on="k", within="1 day").to.files(str(folder / "rows"))


def _step(loop: EpochLoop, epochs: int) -> None:
    for _ in range(epochs):
        loop.step()


def _exchange_homes(loop: EpochLoop, last: EpochTimed) -> int:
    """A site of each executor takes over all groups of the other, at once; gives the bytes of their state."""
    here, there = _one_of_each(_sites_of(last))
    bytes_moved = _bytes(loop, (here, there))
    directory = loop.directories[0]
    for group, home in zip(directory.groups, directory.homes, strict=True):
        if home in (here, there):
            loop.change(0, Move(group, home, here + there - home))
    return bytes_moved


def _one_of_each(sites: Iterable[TaskTimed]) -> tuple[int, int]:
    """The first sites that two workers have."""
    first: dict[str, int] = {}
    for task in sites:
        first.setdefault(task.worker, int(task.name.rpartition("-")[2]))
    here, there, *_ = first.values()
    return here, there


def _sites_of(event: EpochTimed) -> list[TaskTimed]:
    return sorted((task for task in event.tasks if task.kind == "site"), key=lambda task: task.name)


def _bytes(loop: EpochLoop, sites: Iterable[int]) -> int:
    """No run is shared while nothing has moved."""
    return sum(piece.run.size for site in sites for piece in loop.manifest.subqueries[0].sites[site].slices)


def _answer(question: Question, timed: Sequence[EpochTimed], state: int, moved: int, equal: bool) -> Answer:
    middle, end = question.filling + question.epochs, question.filling + 2 * question.epochs
    before, after = timed[question.filling : middle], timed[middle:end]
    return Answer(
        before=tuple(event.seconds for event in before),
        after=tuple(event.seconds for event in after),
        fetched_before=tuple(sum(task.fetched for task in event.tasks) for event in before),
        fetched_after=tuple(sum(task.fetched for task in event.tasks) for event in timed[middle:]),
        state_bytes=state,
        moved_bytes=moved,
        stays=_stays(timed[question.filling : end]),
        equal=equal,
    )


def _stays(timed: Sequence[EpochTimed]) -> float:
    workers = [[task.worker for task in _sites_of(event)] for event in timed]
    steps = [pair for now, then in zip(workers[1:], workers, strict=False) for pair in zip(now, then, strict=True)]
    same = [worker == last for worker, last in steps]
    return sum(same) / len(same)


def _equal(wide: Sequence[Lot], narrow: Sequence[Lot], published: Path) -> bool:
    """Every narrow row has met the one wide row with its key, text and all."""
    exact = ("k", "text", "epoch_us(ts)", "epoch_us(right_ts)", "n")
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE b (ts TIMESTAMP, k BIGINT, n BIGINT)")
        for lot in narrow:
            connection.register("lot", lot.table())
            connection.execute("INSERT INTO b SELECT * FROM lot")
        expected = [_met(connection, lot, exact) for lot in wide]
        found = digest(connection, parquet(published), exact)
    return found == Digest(sum(one.rows for one in expected), sum(one.hashes for one in expected), ())


def _met(connection: duckdb.DuckDBPyConnection, lot: Lot, exact: Sequence[str]) -> Digest:
    """The results that the wide rows of one lot are in: lot by lot, so that they are not all in memory."""
    connection.register("a", lot.table())
    return digest(connection, "(SELECT a.ts, k, text, b.ts AS right_ts, n FROM a JOIN b USING (k))", exact)


if __name__ == "__main__":
    serve(Question, measure)
