"""Closings that are put off: the answer stays, they come smoothly, not too late, and not never."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.api.script import read_script
from penstock.api.streams import Stream
from penstock.balance.stats import RoundStats
from penstock.checkpoint.store import Checkpoint
from penstock.engine.driver.commit import has_pending, source_marks
from penstock.engine.driver.executor import InlineExecutor
from penstock.engine.driver.loop import EpochLoop, Outcome
from penstock.engine.driver.recovery import recover
from penstock.errors import ConfigError
from penstock.events import EpochCommitted
from penstock.operators.protocol import ClosesWindows
from penstock.plan.compile.subqueries import compile_query
from penstock.settings import Settings
from penstock.state.model import Manifest
from penstock.testing.ways import Way, random_way
from tests.support.amounts import random_cases, some_of
from tests.support.crashes import Place, Scenario, assert_exact, operator_scenario, random_scenario
from tests.support.looping import looping, step_to_end
from tests.support.queries.data import SECOND
from tests.support.queries.operators import operator_queries

QUERIES = operator_queries(SECOND)
MODES = ["slow", "lazy"]
WINDOW, KEYS, EPOCHS = 100, 600, 20  # of a window its span, its keys, and the epochs it takes to come in


# -- the settings --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "hint"), [({"flush": "late"}, "'eager', 'slow' or 'lazy'"), ({"max_delay": 0}, "from 1 to")]
)
def test_a_setting_that_means_nothing_is_refused(wrong: dict[str, Any], hint: str) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))) as error:
        Settings(**wrong)
    assert hint in (error.value.hint or "")


def test_a_script_can_ask_for_it() -> None:
    source = (
        "CREATE SOURCE s (ts TIMESTAMP, WATERMARK FOR ts AS ts) WITH (connector = 'files', path = 'none/*.parquet')"
    )
    script = f"SET flush = slow; SET max_delay = 3; {source}; SELECT ts FROM s"
    assert read_script(script, "script").settings == {"flush": "slow", "max_delay": 3}


# -- the answer ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flush", MODES)
@pytest.mark.parametrize("case", random_cases(6))
def test_what_is_put_off_changes_nothing_about_the_answer(
    case: int, flush: str, random: Random, tmp_path: Path
) -> None:
    for number in random_cases(3):
        scenario, place = random_scenario(random), Place(tmp_path / str(number))
        way = replace(random_way(random), flush=flush)
        step_to_end(scenario, place, way, InlineExecutor())
        assert_exact(scenario, place, f"{way}\n{scenario.stream.explain()}")


@pytest.mark.parametrize("flush", MODES)
@pytest.mark.parametrize("name", ["windows", "windows of rows", "union", "top of windows", "sessions"])
def test_any_operator_may_have_its_closings_put_off(name: str, flush: str, random: Random, tmp_path: Path) -> None:
    for number in random_cases(3):
        scenario, place = operator_scenario(random, QUERIES[name]), Place(tmp_path / str(number))
        way = replace(random_way(random), flush=flush)
        step_to_end(scenario, place, way, InlineExecutor())
        assert_exact(scenario, place, f"{name}, {way}")


@pytest.mark.parametrize("case", random_cases(6))
def test_every_start_may_flush_in_another_way(case: int, random: Random, place: Place) -> None:
    """What one run has put off the next one closes, whatever its settings."""
    scenario, ways = random_scenario(random, batches=12), []
    for flush in random.sample(["slow", "lazy", "eager", "slow"], 4):
        ways.append(replace(random_way(random), flush=flush, hash_bits=64))
        with looping(scenario, place, ways[-1], InlineExecutor()) as (loop, _):
            for _ in range(3):
                loop.step()
    step_to_end(scenario, place, ways[0], InlineExecutor())
    assert_exact(scenario, place, "\n".join(map(str, ways)))


# -- how late, and how much at once --------------------------------------------------------------------------------


def regular(windows: int = 4, slide: int = WINDOW) -> Stream:
    """Every key in every window, rows in order of time, a batch an epoch."""
    random = np.random.default_rng(7)
    times = np.sort(random.integers(0, windows * WINDOW, 3 * KEYS * windows))
    rows = pa.table({"ts": times, "k": random.integers(0, KEYS, len(times))})
    borders = np.searchsorted(times, np.arange(0, windows * WINDOW + 1, WINDOW // EPOCHS))
    parts = [rows.slice(low, high - low) for low, high in pairwise(borders)]
    stream = ps.read.batches(parts, time="ts", progress=ps.ordered())
    return stream.group_by("k").window(ps.sliding(WINDOW, every=slide)).agg(n=ps.count())


def epochs(stream: Stream, place: Place, way: Way) -> Iterator[tuple[EpochLoop, Manifest, EpochCommitted]]:
    with looping(Scenario(stream), place, way, InlineExecutor()) as (loop, told):
        while loop.step() is not Outcome.FINISHED:
            yield loop, loop.manifest, next(event for event in reversed(told) if isinstance(event, EpochCommitted))


def overdue(loop: EpochLoop, manifest: Manifest, windows: int) -> bool:
    """Whether a range has a window unclosed that was complete so many windows before."""
    operator, (mark,) = loop.query.program.subqueries[0].operator, source_marks(manifest.sources)
    assert isinstance(operator, ClosesWindows)
    then = mark.shift(-windows * operator.period)
    marks = [part.marks for site in manifest.subqueries[0].sites for part in site.marks]
    return any(operator.due(reached, (then,), (0,)) for reached in marks)


@pytest.mark.parametrize("flush", MODES)
@pytest.mark.parametrize(("slide", "max_delay"), some_of([(WINDOW, 1), (WINDOW, 3), (WINDOW // 4, 2)]))
def test_no_closing_is_put_off_by_more_than_max_delay_windows(
    slide: int, max_delay: int, flush: str, place: Place
) -> None:
    seen = list[bool]()
    for loop, manifest, _ in epochs(regular(slide=slide), place, Way(flush=flush, max_delay=max_delay)):
        assert not overdue(loop, manifest, max_delay)
        seen.append(overdue(loop, manifest, 0))
    assert any(seen), "nothing was put off"


@pytest.mark.parametrize("slide", [WINDOW, WINDOW // 4])
def test_eager_puts_nothing_off(slide: int, place: Place) -> None:
    for loop, manifest, event in epochs(regular(slide=slide), place, Way()):
        assert not has_pending(manifest, loop.query.program)
        assert not event.pending


def most_at_once(place: Place, way: Way) -> int:
    return max(event.rows_out for _, _, event in epochs(regular(), place, way))


def test_closings_come_smoothly(tmp_path: Path) -> None:
    assert most_at_once(Place(tmp_path / "eager"), Way()) >= KEYS * 0.9
    assert most_at_once(Place(tmp_path / "slow"), Way(flush="slow")) <= KEYS * 2 / EPOCHS
    assert most_at_once(Place(tmp_path / "slower"), Way(flush="slow", max_delay=2)) <= KEYS * 2 / EPOCHS


def test_what_was_put_off_does_not_hurry_the_next_epoch(place: Place) -> None:
    for loop, manifest, event in epochs(regular(), place, Way(flush="slow")):
        assert not event.pending
        if has_pending(manifest, loop.query.program):
            break
    else:
        pytest.fail("nothing was put off")


def test_what_a_deadline_left_hurries_the_next_epoch(place: Place) -> None:
    way = Way(flush="slow", items=1, item_rows=50)
    assert any(event.pending for _, _, event in epochs(regular(windows=2), place, way))


@pytest.mark.parametrize(("way", "waits"), [(Way(flush="slow"), False), (Way(items=1, item_rows=50), True)])
def test_what_was_put_off_does_not_count_as_backlog(way: Way, waits: bool, place: Place) -> None:
    """Policies see what a deadline left, not what is put off on purpose."""
    pending = list[int]()
    for loop, manifest, _ in epochs(regular(windows=2), place, way):
        if has_pending(manifest, loop.query.program):
            pending += [int(stats.loads.pending.sum()) for stats in loop.stats]
        loop.watched = True
    assert pending
    assert any(pending) == waits


def test_the_rest_between_two_epochs_is_part_of_a_round(place: Place) -> None:
    """Otherwise sites that rest most of the time would look busy, and none would ever be given up."""
    told, rest = list[RoundStats](), 0.05
    for loop, _, _ in epochs(regular(windows=4), place, Way()):
        told += loop.stats
        loop.watched = True
        time.sleep(rest)
    told = told[1:]  # before the first that was told of, nothing was
    assert len(told) > 1
    assert min(stats.seconds for stats in told) >= rest
    assert all((stats.share >= stats.busy.max() + 0.99 * rest).all() for stats in told)


# -- lulls -----------------------------------------------------------------------------------------------------------


def followed(folder: Path, levels: int, **settings: object) -> EpochLoop:
    stream = ps.read.files(
        str(folder / "*.parquet"), time="ts", follow=True, schema={"ts": "BIGINT", "k": "BIGINT"}, progress=ps.ordered()
    )
    for _ in range(levels):
        stream = stream.group_by("k").window(ps.tumbling(WINDOW)).agg(n=ps.count())
    ready = stream.to.files(str(folder / "out"))
    checkpoint = Checkpoint.open(folder / "ck")
    return EpochLoop(recover(compile_query(ready.sink), checkpoint, Settings(**settings)), InlineExecutor())  # type: ignore[arg-type]


@pytest.mark.parametrize("flush", MODES)
@pytest.mark.parametrize("levels", [1, 2])
def test_in_a_lull_all_that_is_complete_gets_closed(levels: int, flush: str, tmp_path: Path) -> None:
    loop = followed(tmp_path, levels, flush=flush, max_delay=3, epoch_seconds=1e-6)
    loop.step()
    rows = pa.table({"ts": [*range(WINDOW), 2 * WINDOW + 1], "k": [*range(WINDOW), 0]})
    pq.write_table(rows, tmp_path / "a.parquet")
    assert loop.step() is Outcome.WORKED
    assert has_pending(loop.manifest, loop.query.program)
    assert [loop.step() for _ in range(60)][-1] is Outcome.IDLE
    assert pq.read_table(tmp_path / "out").num_rows == WINDOW
    loop.checkpoint.close()


@pytest.mark.parametrize(
    ("flush", "seconds", "left"), [("lazy", 600, False), ("lazy", 1e-6, True), ("slow", 600, True)]
)
def test_lazy_closings_fill_idle_time(flush: str, seconds: float, left: bool, tmp_path: Path) -> None:
    """With time to spare all of it is closed in the epoch that completes it."""
    loop = followed(tmp_path, 1, flush=flush, epoch_seconds=seconds)
    loop.step()
    pq.write_table(pa.table({"ts": [*range(WINDOW), WINDOW], "k": [*range(WINDOW), 0]}), tmp_path / "a.parquet")
    loop.step()
    assert has_pending(loop.manifest, loop.query.program) == left
    loop.checkpoint.close()
