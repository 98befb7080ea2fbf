"""Inputs of unions and joins that are idle, stalled, finished or resumed, in every combination, by a held clock.

All inputs show rows at first. Then one that is `idle` or will have `resumed` is silent for longer than its idle time,
one that is `silent` too, but it has none; a `stalled` one has rows in every epoch that do not carry it on; a `finished`
one has ended. Then the `resumed` ones show rows again, some of them below what the others have come to.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from epoch_bench import Bench
from small_streams import Batch, stream

import penstock as ps
from penstock.api.streams import Stream
from penstock.progress.mark import END, Mark, at
from penstock.testing import assert_same_rows, batch_answer
from penstock.testing.source_rows import tables_of
from tests.support.clock import SimulatedClock

MARKS = (20, 50, 30)  # of the inputs after their first rows; windows end there, so a late row has missed all of them
STATES = ("idle", "stalled", "finished", "resumed", "silent")
MIXES = [mix for inputs in (2, 3) for mix in product(STATES, repeat=inputs)]
AGAIN = [(t, t % 2) for t in range(5, 80, 5)] + [(80, 1)]


def first(n: int) -> Batch:
    return [(t, t % 2) for t in range(1 + n, MARKS[n], 7)] + [(MARKS[n], n % 2)]


def shown(n: int, state: str) -> list[Batch]:
    """The rows of an input, epoch by epoch."""
    still: Batch = [(MARKS[n], 1)]
    match state:
        case "finished":
            return [first(n)]
        case "stalled":
            return [first(n), *[still] * 6]
        case "resumed":
            return [first(n), [], [], [], AGAIN, [], []]
    return [first(n), *[[]] * 6]


@dataclass(frozen=True)
class Input:
    """An input as the table in the docs sees it: how far it has come, and what it is."""

    mark: int
    state: str

    @property
    def waits_for_nobody(self) -> bool:
        return self.state in ("idle", "resumed")

    def beside(self, all_: list[Input]) -> Input:
        """Where it stands once it has been silent for long."""
        active = [other.mark for other in all_ if other.state in ("stalled", "silent", "back")]
        carried = min(active) if active else max(other.mark for other in all_)
        return replace(self, mark=max(self.mark, carried)) if self.waits_for_nobody else self

    @property
    def shown(self) -> Mark:
        return END if self.state == "finished" else at(self.mark)


def union(inputs: list[Stream]) -> Stream:
    first, *others = inputs
    for other in others:
        first = first.union(other)
    return first.window(ps.tumbling(10)).agg(n=ps.count())


def join(inputs: list[Stream]) -> Stream:
    """Rows of the first without a partner are given once nothing can match them any more."""
    first, second, *third = inputs
    left = first.join(second, "k", within=3, kind="left").select("ts", "k", "i")
    return left.join(third[0], "k", within=3, kind="left").select("ts", "k", "i") if third else left


def decided(operator: str, inputs: list[Input]) -> set[int]:
    """The times that must be among the results: starts of windows, or rows of the first input."""
    low = min((one.mark for one in inputs if one.state != "finished"), default=1000)
    rows = [t for n in range(len(inputs)) for t, _ in first(n)] if operator == "union" else [t for t, _ in first(0)]
    return {t // 10 * 10 for t in rows if t // 10 * 10 + 10 <= low} if operator == "union" else {
        t for t in rows if t + 3 < low
    }  # fmt: skip


@pytest.mark.parametrize("mix", MIXES, ids="-".join)
@pytest.mark.parametrize("operator", [union, join])
def test_idle_inputs_in_every_combination(
    operator: object, mix: tuple[str, ...], clock: SimulatedClock, tmp_path: Path
) -> None:
    name = operator.__name__  # type: ignore[attr-defined]
    idle = [None if state == "silent" else "10s" for state in mix]
    streams = [stream(f"s{n}", *shown(n, state), idle=idle[n]) for n, state in enumerate(mix)]
    query: Stream = operator(streams)  # type: ignore[operator]
    inputs = [Input(MARKS[n], state) for n, state in enumerate(mix)]
    bench = Bench(query, tmp_path, {"sites": 2}, clock=clock)
    bench.step(2)
    clock.now = 9.9
    assert bench.step() == [one.shown for one in inputs], "idle before its time"
    clock.now = 11.0
    inputs = [one.beside(inputs) for one in inputs]
    assert bench.step() == [one.shown for one in inputs]
    assert decided(name, inputs) <= set(bench.result.column(0).to_pylist())
    bench.restart()
    assert bench.step() == [_back(one).shown for one in inputs], "what was reached is committed"
    late = {n: one.mark for n, one in enumerate(inputs) if one.state == "resumed"}
    assert bench.late == sum(t < mark for mark in late.values() for t, _ in AGAIN)
    bench.finish()
    rows = {f"s{n}": table for n, table in enumerate(_on_time(streams, late))}
    assert_same_rows(bench.result, batch_answer(query.node, rows), f"{name} of {mix}")


def _back(one: Input) -> Input:
    return replace(one, mark=80) if one.state == "resumed" else one


def _on_time(streams: list[Stream], late: dict[int, int]) -> Iterator[pa.Table]:
    """The rows of each input without those of its second appearance that are below the mark."""
    for n, one in enumerate(streams):
        (table,) = tables_of(one.node).values()
        again = pc.greater_equal(pa.array(range(table.num_rows)), len(first(n)))
        below = pc.less(table["ts"], late.get(n, -1))
        yield table.filter(pc.invert(pc.and_(again, below)))
