"""What a site holds in memory follows its budget: rows that arrive, the rows of an item, and the runs it writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_streams import answer

import penstock as ps
from penstock.api.streams import Stream
from penstock.checkpoint.store import Checkpoint
from penstock.engine.driver.executor import InlineExecutor
from penstock.engine.driver.loop import EpochLoop, Outcome
from penstock.engine.driver.recovery import recover
from penstock.engine.task.site import merge
from penstock.events import EpochCommitted, Event
from penstock.plan.compile.subqueries import compile_query
from penstock.plan.options import CompileOptions
from penstock.settings import Settings
from penstock.storage.memory import Budget
from penstock.testing.rows import assert_same_rows

EMPTY_FILE = 2_000  # bytes of a run without rows, at most


def stream(random: Random, name: str, rows: int = 240, parts: int = 6, keys: int = 60) -> Stream:
    tables = []
    for n in range(parts):
        times = [n * 20 + random.randrange(60) for _ in range(rows // parts)]
        values = [random.randrange(keys) for _ in times]
        tables.append(
            pa.table({"ts": times, name: values, f"{name}_text": ["x" * random.randrange(60) for _ in times]})
        )
    return ps.read.batches(tables, time="ts", progress=ps.slack(60), name=name)


def joined(random: Random) -> Stream:
    return stream(random, "k").join(stream(random, "j"), on=[("k", "j")], within=50)


def counted(random: Random) -> Stream:
    return stream(random, "k").group_by("k").window(ps.sliding(60, every=20)).agg(n=ps.count(), last=ps.last("k_text"))


def in_sessions(random: Random) -> Stream:
    return stream(random, "k").group_by("k").window(ps.session(30)).agg(n=ps.count())


def distinct(random: Random) -> Stream:
    return stream(random, "k", keys=20).select("ts", "k").distinct()


QUERIES = {"join": joined, "windows": counted, "sessions": in_sessions, "distinct": distinct}


def loop_of(query: Stream, place: Path, settings: Settings) -> EpochLoop:
    compiled = compile_query(query.to.files(str(place / "out")).sink, CompileOptions.of(settings))
    return EpochLoop(recover(compiled, Checkpoint.open(place / "ck"), settings), InlineExecutor())


@pytest.mark.parametrize("name", QUERIES)
def test_no_run_is_larger_than_the_budget_allows(name: str, random: Random, tmp_path: Path) -> None:
    query = QUERIES[name](random)
    loop, largest = loop_of(query, tmp_path, Settings(memory=12_000, sites=1)), 0
    while loop.step() is not Outcome.FINISHED:
        slices = [piece for sub in loop.manifest.subqueries for site in sub.sites for piece in site.all_slices()]
        largest = max([largest, *(piece.run.size for piece in slices)])
    assert 0 < largest <= Budget(12_000).run + EMPTY_FILE
    assert_same_rows(pq.read_table(tmp_path / "out"), answer(query))


@pytest.mark.parametrize("name", QUERIES)
def test_arrivals_that_do_not_fit_are_written_first(
    name: str, random: Random, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query, written = QUERIES[name](random), list[int]()
    overflow: Callable[..., object] = merge._overflow

    def counting(*arguments: object) -> object:
        found = overflow(*arguments)
        written.append(len(found))  # type: ignore[arg-type]
        return found

    monkeypatch.setattr(merge, "_overflow", counting)
    loop = loop_of(query, tmp_path, Settings(memory=3_000, sites=2, items=30))
    while loop.step() is not Outcome.FINISHED:
        pass
    assert max(written) > 1
    assert_same_rows(pq.read_table(tmp_path / "out"), answer(query))


def test_nothing_is_written_first_with_enough_memory(
    random: Random, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(merge, "_overflow")
    loop = loop_of(joined(random), tmp_path, Settings(sites=2))
    while loop.step() is not Outcome.FINISHED:
        pass


@pytest.mark.parametrize("format_", ["parquet", "csv"])
def test_an_epoch_takes_in_as_many_bytes_as_fit(format_: str, random: Random, tmp_path: Path) -> None:
    """From the first epoch on, though nobody knows how many rows that are."""
    rows, width, memory = 2_000, 3_000, 8_000_000
    table = pa.table({"ts": range(rows), "text": [random.choice("abc") * width for _ in range(rows)]})
    (tmp_path / "in").mkdir()
    if format_ == "parquet":
        pq.write_table(table, tmp_path / "in" / "rows.parquet", row_group_size=50, use_dictionary=False)
    else:
        table.to_pandas().to_csv(tmp_path / "in" / "rows.csv", index=False)
    source = ps.read.files(str(tmp_path / "in" / "*"), time="ts", progress=ps.ordered())
    taken: list[int] = []

    def heard(event: Event) -> None:
        if isinstance(event, EpochCommitted):
            taken.append(event.rows_in)

    query = source.window(ps.tumbling(500)).agg(n=ps.count(), longest=ps.max("text"))
    run = query.to.memory().start(sites=2, memory=memory, master="inline", on_event=heard).wait()
    assert run.pandas()["n"].sum() == rows
    assert max(taken) * width <= 2 * Budget(memory).arrivals * 1.2
    assert max(taken) * width >= Budget(memory).arrivals / 2
