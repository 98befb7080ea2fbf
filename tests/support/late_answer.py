"""Expected output of a query with late rows: its answer, and the late rows with the windows that missed them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from penstock.arrow import AnyChunked
from penstock.plan.logical import Node
from penstock.plan.program import LATE_FOR
from penstock.testing.oracle import Late, answer_and_late, batch_answer
from penstock.testing.oracle.relation import MARK, ROW
from penstock.testing.source_rows import sources_of
from tests.support.cases.input import Epochs
from tests.support.cases.late import divided, judged

BY_WINDOW, BY_ROW = "window", "row"  # the rules of lateness


@dataclass(frozen=True)
class Expected:
    """The expected results and, by source, the expected late rows; for lateness by window, with the missed windows as
    text."""

    rows: pa.Table
    late: dict[str, pa.Table]


def expected(node: Node, epochs: Mapping[str, Epochs], lateness: str) -> Expected:
    """Compute the expected output of a query whose sources have these rows in these epochs."""
    sources = sources_of(node)
    if lateness == BY_ROW:
        parts = {name: divided(epochs[name], source) for name, source in sources.items()}
        rows = batch_answer(node, {name: on_time for name, (on_time, _) in parts.items()})
        return Expected(rows, {name: late for name, (_, late) in parts.items()})
    tables = {name: judged(epochs[name], source) for name, source in sources.items()}
    rows, late = answer_and_late(node, tables)
    return Expected(rows, {name: _of_source(name, table, late) for name, table in tables.items()})


def _of_source(name: str, rows: pa.Table, late: Late) -> pa.Table:
    numbers: list[int] = rows.column(ROW).to_numpy().tolist()
    some = pa.array([(name, number) in late for number in numbers], pa.bool_())
    told = [_text(late[name, number]) for number in numbers if (name, number) in late]
    return rows.filter(some).drop_columns([ROW, MARK]).append_column(LATE_FOR, pa.array(told, pa.string()))


def readable(late: pa.Table) -> pa.Table:
    """Return published late rows with the missed windows as text, without the subquery."""
    places = [n for n, field in enumerate(late.schema) if pa.types.is_list(field.type)]
    for place in places[-1:]:
        missed = [None if row is None else _text(map(_span, row)) for row in _with_integers(late.column(place))]
        late = late.set_column(place, LATE_FOR, pa.array(missed, pa.string()))
    return late


def _with_integers(missed: AnyChunked) -> list[list[dict[str, int | None]] | None]:
    """Return what rows missed, with times as integers."""
    entry = pa.struct([(name, pa.int64()) for name in ("subquery", "first_start", "last_end")])
    integers: AnyChunked = missed.cast(pa.list_(pa.field("missed", entry)))
    return integers.to_pylist()


def _span(entry: Mapping[str, int | None]) -> tuple[int | None, int | None]:
    return entry["first_start"], entry["last_end"]


def _text(missed: Iterable[tuple[int | None, int | None]]) -> str:
    return ", ".join(sorted({"as a whole" if first is None else f"{first} to {last}" for first, last in missed}))
