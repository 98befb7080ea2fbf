"""Reading a split: every row is on time, late, bad, or only punctuation; and rows are numbered where they are read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.connectors.bad_rows import divert_malformed
from penstock.connectors.source import ReadResult
from penstock.engine.task.exchange.deliver import LateFor, LateRows
from penstock.engine.task.level import SplitReading
from penstock.engine.wire.job import Output, RouteTask
from penstock.errors import BadRowError, EvaluationError
from penstock.expr.tree import Call, Cast, Column, Literal
from penstock.plan.program import PLACE, ROW_NUMBER, Input
from penstock.progress.mark import BEGIN, MAX_TIME, MIN_TIME, Mark, Ordered, Punctuated, Rule, Seen, Slack, at
from penstock.state.model import Staged

SCHEMA = pa.schema([("ts", pa.int64()), ("kind", pa.string()), ("note", pa.string())])
IS_MARK = Call("=", (Column("kind"), Literal("mark")))
TAKEN_OUT, KEPT = Punctuated(IS_MARK), Punctuated(IS_MARK, keep=True)
FARTHEST = 1_000  # how near to the limits of the type a time may be

Row = tuple[int | None, str | None]


@dataclass(frozen=True)
class Parts:
    """A split that is read as several tables."""

    tables: tuple[tuple[Row, ...], ...]
    substream: str = "north"
    where: str = "here"

    @property
    def rows(self) -> int:
        return sum(map(len, self.tables))

    def read(self, columns: tuple[str, ...]) -> Iterator[ReadResult]:
        for rows in self.tables:
            times, kinds = [r[0] for r in rows], [r[1] for r in rows]
            table = pa.table([times, kinds, [f"note {t}" for t in times]], schema=SCHEMA)
            found = divert_malformed(table, "ts", self.where, lambda: 0)
            yield ReadResult(found.rows.select(list(columns)), found.bad)


class Found(SplitReading):
    """A split as it is read where all that is behind the punctuation is late."""

    def __init__(self, job: Any, task: RouteTask) -> None:
        super().__init__(job, task)
        self._late_rows = LateRows(job, task)

    def on_time(self) -> Iterator[pa.Table]:
        for taken in self.taken():
            if taken.behind is not None:
                self._late_rows.add(taken.behind, [LateFor(0, taken.behind.column(PLACE).to_numpy())])
            yield taken.on_time

    @property
    def late(self) -> int:
        return len(self._late_rows.places)

    def stage_diverted(self) -> list[Staged]:
        return [*self.stage_bad(), *self._late_rows.stage(self.places)]


def reading(
    folder: Path,
    *tables: tuple[Row, ...],
    rule: Rule,
    late_below: Mark = BEGIN,
    numbered: bool = False,
    divert: bool = True,
) -> Found:
    source = Input(SCHEMA, "ts", rule, ("ts", "kind"), numbered, ())
    job: Any = SimpleNamespace(
        epoch=1,
        program=SimpleNamespace(inputs=(source,), time_range=(MIN_TIME + FARTHEST, MAX_TIME - FARTHEST)),
        outputs={name: Output(folder, "arrow") for name in ("bad", "late")},
        late_outputs=("late",),
        divert_bad_rows=divert,
    )
    return Found(job, RouteTask(4, 0, Parts(tables), late_below))


def given_rows(found: Found) -> list[dict[str, Any]]:
    return [row for table in found.on_time() for row in table.to_pylist()]


def times(found: Found) -> list[int]:
    return [row["ts"] for row in given_rows(found)]


def diverted(folder: Path, found: Found) -> dict[str, list[dict[str, Any]]]:
    """What was staged, by output."""
    return {file.output: pa.ipc.open_file(folder / file.name).read_all().to_pylist() for file in found.stage_diverted()}


def test_rows_that_are_only_punctuation_leave_the_stream(tmp_path: Path) -> None:
    found = reading(tmp_path, ((1, "row"), (5, "mark"), (3, None)), ((9, "row"),), rule=TAKEN_OUT)
    assert times(found) == [1, 3, 9]
    assert found.seen == Seen("north", 4, 9, 9, 5)
    assert (found.rows, found.late, found.bad) == (4, 0, 0)


def test_rows_that_are_punctuation_as_well_stay(tmp_path: Path) -> None:
    found = reading(tmp_path, ((1, "row"), (5, "mark"), (3, None)), rule=KEPT)
    assert times(found) == [1, 5, 3]
    assert found.seen.punctuation == 5


def test_punctuation_may_come_before_the_rows_it_closes_and_out_of_order(tmp_path: Path) -> None:
    found = reading(tmp_path, ((50, "mark"), (20, "row"), (10, "mark")), ((30, "mark"), (40, "row")), rule=TAKEN_OUT)
    assert times(found) == [20, 40]
    assert found.seen.punctuation == 50


def test_late_punctuation_still_counts_and_is_a_late_row_only_if_it_is_a_row(tmp_path: Path) -> None:
    rows = ((5, "mark"), (6, "row"), (20, "row"))
    taken_out = reading(tmp_path, rows, rule=TAKEN_OUT, late_below=at(10))
    assert (times(taken_out), taken_out.late, taken_out.seen.punctuation) == ([20], 1, 5)
    assert [row["ts"] for row in diverted(tmp_path, taken_out)["late"]] == [6]
    kept = reading(tmp_path, rows, rule=KEPT, late_below=at(10))
    assert (times(kept), kept.late, kept.seen.punctuation) == ([20], 2, 5)
    assert diverted(tmp_path, kept)["late"] == [
        {"ts": 5, "kind": "mark", "note": "note 5"},
        {"ts": 6, "kind": "row", "note": "note 6"},
    ]


def test_at_the_limits_of_the_type_punctuation_is_good_and_a_row_is_not(tmp_path: Path) -> None:
    rows = ((MIN_TIME, "mark"), (MAX_TIME, "mark"), (7, "row"))
    taken_out = reading(tmp_path, rows, rule=TAKEN_OUT)
    assert (times(taken_out), taken_out.bad, taken_out.seen.punctuation) == ([7], 0, MAX_TIME)
    kept = reading(tmp_path, rows, rule=KEPT)
    assert (times(kept), kept.bad, kept.seen.punctuation) == ([7], 2, None)


def test_late_rows_are_found_again_beside_rows_out_of_range(tmp_path: Path) -> None:
    found = reading(tmp_path, ((MAX_TIME, "row"), (3, "row"), (30, "row")), rule=Ordered(), late_below=at(10))
    assert times(found) == [30]
    staged = diverted(tmp_path, found)
    assert [row["note"] for row in staged["late"]] == ["note 3"]
    assert "too near the limits" in staged["bad"][0]["reason"]


def test_a_split_without_a_good_row_has_begun_its_substream(tmp_path: Path) -> None:
    found = reading(tmp_path, ((None, "row"),), (), rule=Slack(1))
    assert times(found) == []
    assert found.seen == Seen("north", 4, None, None)


def test_a_predicate_that_fails_says_so(tmp_path: Path) -> None:
    rule = Punctuated(Call(">", (Cast(Column("kind"), "BIGINT"), Literal(0))))
    with pytest.raises(EvaluationError):
        times(reading(tmp_path, ((7, "row"),), rule=rule))


def test_a_bad_row_stops_the_run_where_it_is_told_to(tmp_path: Path) -> None:
    with pytest.raises(BadRowError, match="malformed row in here"):
        times(reading(tmp_path, ((MAX_TIME, "row"),), rule=TAKEN_OUT, divert=False))


def test_numbers_count_late_rows_and_punctuation_but_not_bad_rows(tmp_path: Path) -> None:
    tables = ((20, "row"), (None, "row"), (5, "row"), (30, "mark")), ((MAX_TIME, "row"), (21, "row"), (22, "row"))
    found = reading(tmp_path, *tables, rule=TAKEN_OUT, late_below=at(10), numbered=True)
    assert [(row["ts"], row[ROW_NUMBER]) for row in given_rows(found)] == [(20, 0), (21, 3), (22, 4)]
    assert found.numbered == 5
    assert (found.late, found.bad) == (1, 2)
    assert [row["ts"] for row in diverted(tmp_path, found)["late"]] == [5]


def test_rows_are_numbered_only_where_somebody_asks(tmp_path: Path) -> None:
    (row,) = given_rows(reading(tmp_path, ((1, "row"),), rule=Ordered()))
    assert row == {"ts": 1, "kind": "row"}
    (table,) = reading(tmp_path, (), rule=Ordered(), numbered=True).on_time()
    assert table.schema.field(ROW_NUMBER).type == pa.int64()


ROWS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(0, 30), st.sampled_from([MIN_TIME, MAX_TIME])),
        st.sampled_from(["row", "mark", None]),
    ),
    max_size=12,
)


@settings(deadline=None, max_examples=60)
@given(ROWS, st.integers(0, 12), st.integers(0, 30), st.sampled_from([TAKEN_OUT, KEPT, Ordered()]))
def test_every_row_is_in_one_place_and_the_cut_does_not_matter(tmp_path_factory, rows, cut, late_below, rule):
    folder = tmp_path_factory.mktemp("staged")
    whole = reading(folder, tuple(rows), rule=rule, late_below=at(late_below), numbered=True)
    parts = reading(folder, tuple(rows[:cut]), tuple(rows[cut:]), rule=rule, late_below=at(late_below), numbered=True)
    on_time = given_rows(whole)
    assert given_rows(parts) == on_time
    assert (parts.seen, parts.numbered, parts.late, parts.bad) == (whole.seen, whole.numbered, whole.late, whole.bad)
    marks = sum(time is not None and kind == "mark" for time, kind in rows) if rule == TAKEN_OUT else 0
    assert len(on_time) + whole.late + whole.bad + marks == len(rows)
    assert whole.numbered == len(rows) - whole.bad
