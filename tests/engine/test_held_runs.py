"""Rows that a merger holds back are checked, when they are read again, as state is: they must have the columns with
which rows travel to their operator."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from epoch_bench import Bench
from small_streams import stream

from penstock.api.streams import Stream
from penstock.engine.task.site.storing import OPEN_RUNS
from penstock.errors import CorruptCheckpointError
from penstock.state.model import Manifest
from tests.support.damage.forgeries import OF_RUNS

IN_ORDER = {"order": "in"}


def _inputs() -> tuple[Stream, Stream]:
    a = stream("a", [(5, 1), (30, 1)], [(31, 1)], [(32, 2)], [(90, 1)])
    b = stream("b", [(0, 2)], [(6, 2)], [(31, 2)], [(90, 2)])
    return a, b


def _joined() -> Stream:
    a, b = _inputs()
    return a.join(b, "k", within=40, kind="left")


def _passed_on() -> Stream:
    a, b = _inputs()
    return a.distinct().union(b).distinct()


def _held(manifest: Manifest) -> list[str]:
    return [piece.run.name for state in manifest.subqueries for site in state.sites for piece in site.held]


@pytest.mark.parametrize("damage", ["forged: other columns", "forged: values of another type"])
@pytest.mark.parametrize("query", [_joined, _passed_on], ids=["of a join", "of a subquery behind another"])
def test_held_rows_with_other_columns_are_named_and_not_used(
    query: Callable[[], Stream], damage: str, random: Random, tmp_path: Path
) -> None:
    bench = Bench(query(), tmp_path, IN_ORDER)
    bench.step(2)
    runs = bench.loop.checkpoint.runs
    name = _held(bench.loop.manifest)[-1]
    OF_RUNS[damage](runs / name, [], random)
    OPEN_RUNS.keep_only(runs, ())  # as in a process that has just begun
    bench.restart()
    with pytest.raises(CorruptCheckpointError, match="its columns are") as caught:
        bench.finish()
    assert name in caught.value.what
    assert caught.value.hint
    bench.loop.checkpoint.close()
