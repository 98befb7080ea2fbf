"""Rows that are copied to all of their windows are copied a bounded number at a time, and the answer is the same."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from small_streams import answer, stream

import penstock as ps
from penstock.api.streams import Stream
from penstock.engine.task.exchange import branches
from penstock.plan.program import Branch
from penstock.testing.rows import assert_same_rows

MOST = 60


def copied(name: str) -> Stream:
    rows = stream(name, [(n % 50, n % 3) for n in range(200)], [(n, n % 3) for n in range(50, 120)], slack=50)
    windows = rows.windowed(ps.sliding(20, every=1))
    return windows.top(2, "i", keys=["k"]) if name == "top" else windows.distinct()


@pytest.mark.parametrize("name", ["top", "distinct"])
def test_windows_are_assigned_in_bounded_pieces(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def watched(rows: pa.Table, of: Sequence[Branch]) -> list[pa.Table]:
        results = run_branches(rows, of)
        made.extend(t.num_rows for t, branch in zip(results, of, strict=True) if branch.target is not None)
        return results

    run_branches = branches.run_branches
    monkeypatch.setattr(branches, "run_branches", watched)
    monkeypatch.setattr(branches, "_ROWS", MOST)
    query = copied(name)
    found = query.to.memory().start(master="inline").wait().result()
    assert_same_rows(found, answer(query))
    assert max(made) <= MOST
