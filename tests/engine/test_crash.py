"""A run that dies anywhere and is started again, in any other way, publishes exactly the rows of the batch answer.

The death is an exception that nothing catches; `test_kill` does the same with SIGKILL.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.engine.task.site.compacting import Compaction
from penstock.storage.faults import FaultPoint, arm
from penstock.testing.ways import Way
from tests.support.amounts import random_cases, some_of
from tests.support.crashes import (
    USUAL_POINTS,
    Fault,
    Place,
    Scenario,
    another_way,
    assert_exact,
    die_again_and_again,
    finish,
    kept_manifests,
    launch,
    newest_manifest,
    random_scenario,
    run_until_death,
)

EACH_POINT = [(p, n) for p in USUAL_POINTS for n in (1, 2, 3) if p is not FaultPoint.RECOVERED or n == 1]


def _is(point: FaultPoint) -> str:
    return point.value


@pytest.mark.parametrize(("point", "nth"), some_of(EACH_POINT))
def test_one_death(point: FaultPoint, nth: int, random: Random, scenario: Scenario, place: Place, way: Way) -> None:
    fault, way = Fault(point, nth), replace(way, flush="eager")  # lazy closings may publish fewer than three times
    assert run_until_death(scenario, place, way, fault), f"{fault} was never reached"
    after = another_way(random, way)
    finish(scenario, place, after)
    assert_exact(scenario, place, f"{fault}, {way}, then {after}\n{scenario.stream.explain()}")


@pytest.mark.parametrize("case", random_cases(90))
def test_deaths_in_a_row(case: int, random: Random, scenario: Scenario, place: Place, way: Way) -> None:
    way, story = die_again_and_again(scenario, place, way, random, random.choice([2, 2, 3, 5]))
    finish(scenario, place, way)
    assert_exact(scenario, place, story)


@pytest.mark.parametrize("first", [FaultPoint.MANIFEST_LINKED, FaultPoint.COMMITTED], ids=_is)
@pytest.mark.parametrize("second", [FaultPoint.PUBLISHED_ONE, FaultPoint.PUBLISHED, FaultPoint.RECOVERED], ids=_is)
def test_death_in_recovery_before_results_are_published(
    first: FaultPoint, second: FaultPoint, random: Random, scenario: Scenario, place: Place, way: Way
) -> None:
    while not place.checkpoint.exists() or not newest_manifest(place.checkpoint).staged:
        assert run_until_death(scenario, place, way, Fault(first))
    assert run_until_death(scenario, place, another_way(random, way), Fault(second)) == "recovery"
    finish(scenario, place, another_way(random, way))
    assert_exact(scenario, place)


@pytest.mark.parametrize("case", range(4))
def test_death_in_the_collection_of_a_recovery(
    case: int, random: Random, scenario: Scenario, place: Place, way: Way
) -> None:
    assert run_until_death(scenario, place, way, Fault(FaultPoint.PUBLISHED, 6))  # before an old manifest is deleted
    died = run_until_death(scenario, place, another_way(random, way), Fault(FaultPoint.COLLECTED_ONE))
    assert died == "recovery"
    finish(scenario, place, another_way(random, way))
    assert_exact(scenario, place)


@pytest.mark.parametrize("point", [FaultPoint.RUN_TORN, FaultPoint.RUN_WRITTEN, FaultPoint.SITE_DONE], ids=_is)
def test_death_in_a_compaction(
    point: FaultPoint, random: Random, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = random_scenario(random, levels=1, size=60)  # rows of many epochs live together
    merged = Compaction._merged

    def armed(compaction: Compaction, *arguments: object) -> object:
        arm(point)
        return merged(compaction, *arguments)  # type: ignore[arg-type]

    way = Way(sites=1)  # one site has all runs, so that there are enough of them
    monkeypatch.setattr(Compaction, "_merged", armed)
    assert run_until_death(scenario, place, way, Fault(point, 10**9)) == "epochs"
    monkeypatch.setattr(Compaction, "_merged", merged)
    finish(scenario, place, another_way(random, way))
    assert_exact(scenario, place)


@pytest.mark.parametrize("case", random_cases(12))
def test_start_again_and_again(case: int, random: Random, scenario: Scenario, place: Place, way: Way) -> None:
    """A crash loop still makes progress, one epoch at a time, and a finished checkpoint stays as it is."""
    point = random.choice([FaultPoint.COMMITTED, FaultPoint.PUBLISHED, FaultPoint.COLLECTED])
    nth = 2 if point is FaultPoint.PUBLISHED else 1  # recovery itself publishes once
    deaths = 0
    while run_until_death(scenario, place, another_way(random, way), Fault(point, nth)):
        deaths += 1
    assert deaths >= 9
    assert newest_manifest(place.checkpoint).finished
    finish(scenario, place, another_way(random, way))
    assert_exact(scenario, place)


@pytest.mark.parametrize("point", [FaultPoint.RUN_TORN, FaultPoint.JOB_DONE, FaultPoint.MANIFEST_STAGED], ids=_is)
def test_a_crash_loop_does_not_fill_the_disk(point: FaultPoint, place: Place) -> None:
    """What an epoch that is never committed leaves behind is gone when the query starts again."""
    parts = [pa.table({"ts": pa.array([10 * n + i for i in range(9)]), "k": range(9)}) for n in range(8)]
    calls = ps.read.batches(parts, time="ts")
    scenario, way = Scenario(calls.group_by("k").window(ps.sliding(40, every=10)).agg(n=ps.count())), Way(sites=3)
    launch(scenario, place, way, until="4 epochs").wait()
    left = []
    for _ in range(5):
        assert run_until_death(scenario, place, way, Fault(point)) == "epochs"
        assert newest_manifest(place.checkpoint).epoch == 4
        left.append(len(_unnamed(place)))
    assert left[0], "nothing was left behind"
    assert left == left[:1] * 5, "what is left behind gets more and more"
    assert run_until_death(scenario, place, way, Fault(FaultPoint.RECOVERED)) == "recovery"
    assert not _unnamed(place)
    finish(scenario, place, way)
    assert_exact(scenario, place)


@pytest.mark.parametrize("diverted", ["late", "bad"])
def test_what_was_staged_in_a_folder_that_is_no_longer_used_is_gone_at_the_next_start(
    diverted: str, scenario: Scenario, place: Place, way: Way
) -> None:
    before, after = place.root / "before", place.root / "after"
    old, new = {diverted: str(before)}, {diverted: str(after)}
    launch(scenario, place, way, until="1 epochs", **old).wait()
    staged = before / "_penstock" / "e000000000002-split-0-x.parquet"
    staged.write_bytes(b"of an epoch that was never committed")
    published = sorted(before.glob("*.parquet"))
    launch(scenario, place, way, until="1 epochs", **new).wait()
    assert not staged.exists()
    assert sorted(before.glob("*.parquet")) == published
    finish(scenario, place, way, **new)
    found = [pq.read_table(file).num_rows for folder in (before, after) for file in folder.rglob("*.parquet")]
    assert sum(found) == (len(scenario.bad) if diverted == "bad" else sum(t.num_rows for t in scenario.late.values()))


def test_a_folder_that_another_query_has_taken_over_is_left_alone(scenario: Scenario, place: Place, way: Way) -> None:
    before = place.root / "before"
    launch(scenario, place, way, until="1 epochs", late=str(before)).wait()
    (record,) = (before / "_penstock").glob("published-*")
    record.chmod(0o600)
    record.write_text("another")
    staged = before / "_penstock" / "e000000000002-split-0-x.parquet"
    staged.write_bytes(b"in the making")
    finish(scenario, place, way, late=str(place.root / "after"))
    assert staged.exists()


def _unnamed(place: Place) -> list[str]:
    """The files of epochs that no manifest names."""
    named = {n for m in kept_manifests(place.checkpoint) for n in m.run_names() | {file.name for file in m.staged}}
    folders = [place.results, place.checkpoint / "late", place.checkpoint / "bad"]
    here = [*(place.checkpoint / "runs").iterdir(), *(p for f in folders for p in (f / "_penstock").iterdir())]
    return [p.name for p in here if p.name not in named and not p.name.startswith("published-")]
