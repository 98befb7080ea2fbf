"""A running query is steered from Python as from the command line, and says what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import penstock as ps
from penstock.errors import ConfigError, PenstockError
from penstock.events import DirectoryChanged, EpochCommitted


@pytest.fixture
def run(tmp_path: Path) -> Iterator[ps.Run]:
    """A query over rows that keep coming."""
    calls = ps.read.calls(rows=50_000_000, keys=500, rate=1_000, split_rows=500, progress=ps.slack("1s"))
    query = calls.group_by("caller").window(ps.tumbling("1s")).agg(n=ps.count())
    started = query.to.files(str(tmp_path / "out")).start(
        str(tmp_path / "ck"), master="inline", sites=2, groups_per_site=4, rows_per_epoch=500, policy="static"
    )
    try:
        yield started
    finally:
        started.stop()


def until(holds: Callable[[], bool]) -> None:
    for _ in range(600):
        if holds():
            return
        time.sleep(0.05)
    raise AssertionError("it never came to that")


def test_a_run_is_steered_from_python_and_says_what_came_of_it(run: ps.Run) -> None:
    assert run.scale(3).startswith("3 sites, from the next epoch")
    assert set(run.groups().values()) == {0, 1, 2}
    group, home = next(iter(run.groups().items()))
    target = (home + 1) % 3
    assert run.move(group, target).startswith(f"{group} moves to site {target}")
    assert run.groups()[group] == target
    assert run.split(group).startswith(f"{group} is split into {group}0 and {group}1")
    assert {run.groups()[half] for half in (f"{group}0", f"{group}1")} == {target}
    assert group not in run.groups()
    assert "subquery 0" in run.rebalance(timeout=60)
    until(lambda: run._loop.manifest.subqueries[0].directory.sites == 3)
    told = [event.what for event in run.events if isinstance(event, DirectoryChanged)]
    assert told[:3] == ["scale to 3 sites", f"move {group} from site {home} to site {target}", f"split {group}"]


@pytest.mark.parametrize(
    ("wrong", "error", "what", "detail"),
    [
        (lambda run: run.scale(0), ConfigError, "request is not valid", "`int` >= 1"),
        (lambda run: run.scale(2, subquery=7), PenstockError, "refused the request", "1 subqueries"),
        (lambda run: run.scale("four"), ConfigError, "request is not valid", "`int`"),
        (lambda run: run.move("01x", 1), ConfigError, "request is not valid", "group"),
        (lambda run: run.move("0101010101", 1), PenstockError, "refused the request", "there is no such group"),
        (lambda run: run.move(next(iter(run.groups())), 99), PenstockError, "refused the request", "there are 2 sites"),
        (lambda run: run.split("0101010101"), PenstockError, "refused the request", "there is no such group"),
        (lambda run: run.rebalance(subquery=-1), ConfigError, "request is not valid", "`int` >= 0"),
        (lambda run: run.groups(3), ConfigError, "there is no subquery 3", "counted from 0"),
    ],
)
def test_what_cannot_be_done_is_said_in_three_parts(
    run: ps.Run, wrong: Callable[[ps.Run], object], error: type[PenstockError], what: str, detail: str
) -> None:
    with pytest.raises(error) as raised:
        wrong(run)
    assert what in raised.value.what
    assert detail in raised.value.detail
    assert raised.value.hint


def test_a_run_that_has_ended_cannot_be_steered() -> None:
    run = ps.read.batches([[{"ts": 1}]], time="ts").window(ps.tumbling(10)).agg(n=ps.count()).to.memory()
    ended = run.start(master="inline").wait()
    with pytest.raises(PenstockError, match="refused the request") as raised:
        ended.scale(3)
    assert "ended" in raised.value.detail


def test_a_run_does_not_wait_for_itself() -> None:
    said: list[PenstockError] = []

    def listener(event: object) -> None:
        if isinstance(event, EpochCommitted) and handle and not said:
            with pytest.raises(PenstockError) as raised:
                handle[0].scale(2)
            said.append(raised.value)

    handle: list[ps.Run] = []
    stream = ps.read.calls(rows=20_000, rate=2_000, split_rows=200).window(ps.tumbling("1s")).agg(n=ps.count())
    handle.append(stream.to.memory().start(master="inline", on_event=listener, rows_per_epoch=2_000))
    until(lambda: bool(said))
    handle[0].stop()
    assert "cannot wait for itself" in said[0].what


def test_a_subquery_is_named_where_there_are_several(tmp_path: Path) -> None:
    calls = ps.read.calls(rows=50_000_000, rate=1_000, split_rows=500, progress=ps.slack("1s"))
    twice = calls.group_by("caller").window(ps.tumbling("1s")).agg(n=ps.count())
    query = twice.window(ps.tumbling("1s")).agg(most=ps.max("n"))
    run = query.to.memory().start(master="inline", rows_per_epoch=500)
    try:
        with pytest.raises(ConfigError, match="which subquery has the group") as raised:
            run.move("0", 1)
        assert "0: " in raised.value.detail
        assert "1: " in raised.value.detail
        assert run.move(next(iter(run.groups(1))), 1 - next(iter(run.groups(1).values())), subquery=1)
    finally:
        run.stop()
