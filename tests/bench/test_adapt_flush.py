"""The method of `adapt-flush`: rows at a rate, the search for the highest one, what is made of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock_bench.adapt import flush, paced
from penstock_bench.adapt.flush import Line, Size, all_lines, finding, highest
from penstock_bench.adapt.flush_run import Question, Trial, equal, measure
from penstock_bench.adapt.paced import FIRST_ROWS, PacedConnector

QUESTION = Question(500, "slow", 1, 3_000, 1.5, 2, 1, "inline", 2, "")


def trial(lag: float, longest: float = 1.0) -> Trial:
    return Trial(lag, longest, longest, longest / 2, 10, 100, equal=True)


@pytest.mark.parametrize("bound", range(-1, 8))
def test_the_highest_rate_is_found_by_halving(bound: int) -> None:
    asked = list[int]()

    def held(step: int) -> bool:
        asked.append(step)
        return step <= bound

    assert highest(held, 7) == (bound if bound >= 0 else None)
    assert len(asked) <= 4


def test_every_number_of_groups_is_tried_in_every_way() -> None:
    size, asked = Size(groups=(10, 20), steps=4), list[tuple[int, str, int]]()

    def tried(groups: int, mode: str, rate: int) -> Trial:
        asked.append((groups, mode, rate))
        return trial(0.1 if rate <= (size.rate(2) if mode == "slow" else size.rate(1)) else 9.0)

    lines = all_lines(size, tried)
    assert [(line.groups, line.flush) for line in lines] == [(g, mode) for g in (10, 20) for mode in flush.MODES]
    assert [line.highest for line in lines] == [size.rate(step) for step in (1, 2, 1, 1, 2, 1)]
    assert all(asked.count(one) == (1 if one[2] <= size.rate(2 if one[1] == "slow" else 1) else 2) for one in asked)


def test_a_rate_that_is_held_at_the_second_try_is_held() -> None:
    lags = iter((0.1, 9.0, 0.1, 9.0, 9.0))  # the lowest; the highest, and again
    (line,) = all_lines(Size(groups=(10,), steps=1), lambda groups, mode, rate: trial(next(lags, 9.0)))[:1]
    assert line.highest == Size().rate(1)


def test_a_rate_that_is_not_even_held_once_counts_as_none() -> None:
    (line, *_) = all_lines(Size(groups=(10,), steps=3), lambda groups, mode, rate: trial(9.0))
    assert line.highest == 0
    assert finding([line]).records[0]["of_eager"] is None


def test_ways_are_compared_with_the_eager_one() -> None:
    lines = [Line(9, "eager", 100, trial(0.1, 2.0), True), Line(9, "slow", 150, trial(0.1, 0.5), True)]
    found = finding(lines)
    assert [record["of_eager"] for record in found.records] == [1.0, 1.5]
    assert [(bar.value, bar.reached) for bar in found.bars] == [(1.5, True)]
    assert found.equal
    assert not finding([*lines, Line(9, "lazy", 1, trial(0.1), False)]).equal


def test_rows_arrive_as_the_clock_reaches_them(monkeypatch: pytest.MonkeyPatch) -> None:
    now = SimpleNamespace(seconds=50.0)
    monkeypatch.setattr(paced, "time", SimpleNamespace(monotonic=lambda: now.seconds))
    source = PacedConnector(rows=FIRST_ROWS + 500, rate=100, keys=7)
    reader = source.open(source.discover(), "ts")
    first = reader.offer(None, 10)
    assert (first.progress, first.waiting) == ({"rows": FIRST_ROWS}, 0)
    assert not reader.offer(first.progress, 1_000).splits
    now.seconds += 2.0
    offer = reader.offer(first.progress, 150)
    assert (sum(split.rows for split in offer.splits), offer.waiting, offer.ended) == (150, 50, False)
    now.seconds += 10.0
    last = reader.offer(offer.progress, 1_000)
    assert (sum(split.rows for split in last.splits), last.ended) == (350, True)
    assert source.lags == [2.0, 10.5]


@pytest.mark.parametrize("mode", flush.MODES)
def test_a_trial_gives_the_batch_answer(mode: str, tmp_path: Path) -> None:
    found = measure(replace(QUESTION, flush=mode, scratch=str(tmp_path / "trial")))
    assert found.equal
    assert found.rows_out == 3 * 500
    assert found.epochs > 1
    assert not (tmp_path / "trial").exists()


def test_a_wrong_answer_is_found_out(tmp_path: Path) -> None:
    numbers = {name: [1.0] for name in ("total", "least", "most", "mean")}
    rows = pa.table({"k": [0], "window_start": pa.array([0], pa.timestamp("us")), "n": [6], **numbers})
    pq.write_table(rows, tmp_path / "a.parquet")
    assert not equal(QUESTION, tmp_path)


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    lines = [Line(groups, mode, 100, trial(0.1), True) for groups in (1, 2) for mode in flush.MODES]
    assert flush.write_plot(lines, tmp_path / "pictures" / "flush.png").stat().st_size > 1_000
