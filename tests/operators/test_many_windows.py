"""Windows with very many panes: they close in pieces of bounded size, and the pieces are the whole answer."""

from __future__ import annotations

import tracemalloc
from itertools import islice
from random import Random

import pyarrow as pa
import pytest

from penstock.operators.aggregates.measures import Measure
from penstock.operators.protocol import Portion, Stored
from penstock.operators.window import windows as aggregate_panes
from penstock.operators.window.aggregate import WindowAggregate
from penstock.operators.window.windows import Window
from penstock.progress.mark import BEGIN, END, Mark, at

SECOND = 1_000_000
DAY = 86_400 * SECOND
MEASURES = tuple(Measure(name, name, "v") for name in ("count", "sum", "min", "max", "avg", "count_distinct", "first"))


def portion(aggregate: WindowAggregate, rows: pa.Table, after: Mark, upto: Mark) -> Portion:
    partials, times = aggregate.prepare(0, rows), rows["ts"].cast(pa.int64()).to_pylist()
    stored = Stored(partials, min(times) - aggregate.window.pane, max(times))
    return Portion(((stored,),), (partials.slice(0, 0),), (after,), (upto,))


@pytest.mark.parametrize("days", [1, 365])
def test_a_window_of_very_many_panes_closes_in_bounded_pieces(days: int) -> None:
    times = pa.array([n * 7 * SECOND for n in range(100)], pa.timestamp("us"))
    rows = pa.table({"k": list(range(100)), "ts": times, "v": range(100)})
    aggregate = WindowAggregate(("k",), Window("ts", days * DAY, SECOND), MEASURES, rows.schema)
    tracemalloc.start()
    try:
        pieces = [piece.num_rows for piece in islice(aggregate.work(portion(aggregate, rows, BEGIN, END)).results, 3)]
        assert pieces == [aggregate_panes.BLOCK_WINDOWS] * 3
        assert tracemalloc.get_traced_memory()[1] < 200 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("case", range(40))
def test_the_pieces_are_the_whole_answer(case: int, random: Random, monkeypatch: pytest.MonkeyPatch) -> None:
    times, window = (
        [random.randrange(-60, 60) for _ in range(30)],
        Window("ts", random.randint(1, 40), random.randint(1, 9)),
    )
    keys = [random.choice(["a", "b", None, "c"]) for _ in times]
    rows = pa.table({"k": pa.array(keys, pa.string()), "ts": pa.array(times, pa.int64()), "v": [t % 7 for t in times]})
    aggregate = WindowAggregate(("k",), window, MEASURES, rows.schema, random.choice([2, 64]))
    partials = aggregate.prepare(0, rows)
    after, upto = sorted([random.choice([BEGIN, at(random.randrange(-50, 50))]), random.choice([END, at(50)])])
    whole = aggregate.close(partials, after, upto)
    monkeypatch.setattr(aggregate_panes, "BLOCK_WINDOWS", random.randint(1, 9))
    pieces = list(aggregate.closing(partials, after, upto))
    assert pa.concat_tables([whole.slice(0, 0), *pieces]).equals(whole)
    assert window.size == window.slide or all(0 < piece.num_rows <= aggregate_panes.BLOCK_WINDOWS for piece in pieces)
