"""A join whose state exceeds memory works on a part of its hashes in an epoch, while more rows are to come."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_streams import answer

import penstock as ps
from penstock.api.streams import Stream
from penstock.balance import batching
from penstock.balance.batching import MOST_TURNS
from penstock.checkpoint.store import Checkpoint
from penstock.engine.driver.executor import InlineExecutor
from penstock.engine.driver.loop import EpochLoop, Outcome
from penstock.engine.driver.recovery import recover
from penstock.plan.compile.subqueries import compile_query
from penstock.plan.options import CompileOptions
from penstock.settings import Settings
from penstock.state.model import Manifest
from penstock.testing.rows import assert_same_rows

ROWS, EPOCH_ROWS, LITTLE, MUCH = 2_400, 100, 150_000, 150_000_000


def joined(kind: str) -> Stream:
    """A join that keeps all rows of its inputs."""
    left, right = (ps.read.batches(batches(name), time="ts", progress=ps.ordered(), name=name) for name in "kj")
    return left.join(right, on=[("k", "j")], within=10 * ROWS, kind=kind)


def batches(key: str) -> list[pa.Table]:
    """Rows in order of time, as many in each table as a source gives in an epoch."""
    keys = [n * 7 % ROWS for n in range(ROWS)]
    whole = pa.table({"ts": range(ROWS), key: keys, f"{key}_text": ["x" * 50] * ROWS})
    return [whole.slice(at, EPOCH_ROWS // 2) for at in range(0, ROWS, EPOCH_ROWS // 2)]


def steps(query: Stream, place: Path, memory: int) -> Iterator[Manifest]:
    """Run a query to its end, and yield the manifest of every epoch."""
    settings = Settings(memory=memory, sites=2, rows_per_epoch=EPOCH_ROWS)
    compiled = compile_query(query.to.files(str(place / "out")).sink, CompileOptions.of(settings))
    loop = EpochLoop(recover(compiled, Checkpoint.open(place / "ck"), settings), InlineExecutor())
    while loop.step() is not Outcome.FINISHED:
        yield loop.manifest
    yield loop.manifest


def pending(manifest: Manifest) -> bool:
    return any(site.pending for state in manifest.subqueries for site in state.sites)


def behind(manifest: Manifest) -> int:
    """The epochs that the range which has waited longest has waited for: rows come in order of time, from two
    sources."""
    marks = [mark for state in manifest.subqueries for site in state.sites for mark in site.marks]
    reached = [mark.marks[0].at for mark in marks if not mark.marks[0].ended]
    return (max(reached) - min(reached)) // (EPOCH_ROWS // 2) if reached else 0


@pytest.mark.parametrize("kind", ["inner", "left"])
def test_rows_wait_for_their_turn_and_no_longer(kind: str, tmp_path: Path) -> None:
    query = joined(kind)
    manifests = list(steps(query, tmp_path, LITTLE))
    waits = list(map(behind, manifests))
    assert sum(map(pending, manifests)) > len(manifests) / 2
    assert MOST_TURNS / 2 < max(waits) <= MOST_TURNS
    assert_same_rows(pq.read_table(tmp_path / "out"), answer(query))


def test_when_nothing_more_is_to_come_no_row_waits(tmp_path: Path) -> None:
    manifests = list(steps(joined("inner"), tmp_path, LITTLE))
    at_rest = [m for m in manifests if all(source.ended for source in m.sources)]
    assert not pending(at_rest[0])


def test_no_row_waits_if_the_state_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any(map(pending, steps(joined("inner"), tmp_path / "much", MUCH)))
    monkeypatch.setattr(batching, "MOST_TURNS", 1)  # little memory alone makes nothing wait
    assert not any(map(pending, steps(joined("inner"), tmp_path / "little", LITTLE)))
