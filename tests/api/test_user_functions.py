"""Errors in functions of the user name the line of the user's code."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

import penstock as ps
from penstock.api.write import Ready
from penstock.errors import PenstockError
from penstock.events import Event

ROWS = ps.read.table([{"ts": n, "v": n} for n in range(5)], time="ts")


def fails_in_a_library(rows: pa.Table) -> pa.Table:
    return rows.select(["nowhere"])


def fails_at_once(epoch: int, rows: pa.Table) -> None:
    raise ValueError("no room")


def fails_on_events(event: Event) -> None:
    assert event is None


RUNS: dict[str, tuple[Callable[[], Ready], dict[str, object], str]] = {
    "the function": (
        lambda: ROWS.map_batches(fails_in_a_library, ROWS.schema).to.memory(),
        {},
        'return rows.select(["nowhere"])',
    ),
    "the callback": (lambda: ROWS.to.callback(fails_at_once), {}, 'raise ValueError("no room")'),
    "the listener": (lambda: ROWS.to.memory(), {"on_event": fails_on_events}, "assert event is None"),
}


@pytest.mark.parametrize("what", RUNS)
def test_the_line_is_named(what: str) -> None:
    ready, options, line = RUNS[what]
    with pytest.raises(PenstockError, match=f"{what} `.*` failed") as caught:
        ready().start(master="inline", **options).wait()
    assert f"{__file__}, line" in caught.value.detail
    assert line in caught.value.detail
    assert caught.value.hint
