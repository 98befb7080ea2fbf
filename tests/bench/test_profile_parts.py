from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import ConfigError, PenstockError
from penstock_bench.profile.json import profile_json
from penstock_bench.profile.shares import (
    EpochProfile,
    Kind,
    Profile,
    Step,
    TaskProfile,
    profile_of,
)


def task(kind: Kind, worker: str, started: float, seconds: float, **steps: float) -> TaskProfile:
    return TaskProfile(f"{kind}-{worker}", kind, worker, started, seconds, steps)


def parts(cores: int, *epochs: EpochProfile, number: int = 0) -> dict[str, float]:
    return {str(step): round(seconds, 9) for step, seconds in profile_of(epochs, cores).parts[number].items()}


# One epoch on two cores: 1 s of planning, 9 s of the job, 1 s of commit, and 1 s that nothing names. Worker 1 routes
# from 2 to 4 and worker 2 from 2 to 3; the exchange is from 4 to 5; both sites start at 5, and end at 8 and at 9.
WHOLE = EpochProfile(
    7,
    12.0,
    {"plan": 1.0, "run": 9.0, "commit": 1.0},
    (
        task("route", "1", 2.0, 2.0, read=1.5, encode=0.5),
        task("route", "2", 2.0, 1.0, read=1.0),
        task("site", "1", 5.0, 3.0, merge=1.0, work=1.0),
        task("site", "2", 5.0, 4.0, merge=1.0, work=3.0),
    ),
)


def test_every_core_second_is_counted_once() -> None:
    assert parts(2, WHOLE) == {
        "driver: plan": 1.0,
        "spark: start": 1.0,  # from 1 to 2
        "route: read": 1.25,
        "route: encode": 0.25,
        "spark: waiting": 1.0,  # one core from 3 to 4, one from 8 to 9
        "spark: exchange": 1.0,
        "site: merge": 1.0,
        "site: work": 2.0,
        "site: rest": 0.5,
        "spark: end": 1.0,  # from 9 to 10
        "driver: commit": 1.0,
        "driver: rest": 1.0,
    }


def test_a_core_more_waits_more() -> None:
    found = parts(3, WHOLE)
    assert found["driver: plan"] == 1.0
    assert found["route: read"] == round(2.5 / 3, 9)
    assert found["spark: waiting"] == round(
        (1 + 2 + 3 + 2) / 3, 9
    )  # seconds of cores without a task from 2 to 4, 5 to 9
    assert sum(found.values()) == pytest.approx(12.0)


def test_more_tasks_than_cores_share_them() -> None:
    both = task("route", "1", 0.0, 1.0, read=1.0), task("site", "2", 0.0, 1.0, work=1.0)
    assert parts(1, EpochProfile(1, 1.0, {"run": 1.0}, both)) == {"route: read": 0.5, "site: work": 0.5}


def test_tasks_that_ran_ahead_count_where_they_ran() -> None:
    first = EpochProfile(1, 4.0, {"run": 3.0, "commit": 1.0}, (task("site", "1", 0.0, 3.0, work=3.0),))
    ahead = task("route", "2", -2.0, 3.0, read=3.0)
    second = EpochProfile(2, 2.0, {"run": 2.0}, (ahead, task("site", "1", 1.0, 1.0, work=1.0)))
    assert parts(2, first, second) == {
        "site: work": 1.5,
        "spark: waiting": 1.0,
        "route: read": 1.0,  # from 2 to 4, and from 3 on the other core waits for the commit
        "driver: commit": 0.5,
    }
    assert parts(2, first, second, number=1) == {"route: read": 0.5, "site: work": 0.5, "spark: waiting": 1.0}


def test_an_epoch_without_tasks_is_the_drivers() -> None:
    assert parts(2, EpochProfile(1, 3.0, {"plan": 1.0, "run": 1.5}, ())) == {
        "driver: plan": 1.0,
        "spark: end": 1.5,
        "driver: rest": 0.5,
    }
    assert parts(2, EpochProfile(1, 0.0, {}, ())) == {}


def test_the_total_starts_with_the_dearest() -> None:
    profile = profile_of([WHOLE, EpochProfile(8, 8.0, {"plan": 8.0}, ())], 2)
    first, second = profile.total[:2]
    assert (first.step, first.seconds, first.share) == (Step("driver", "plan"), 9.0, 0.45)
    assert (second.step, second.seconds) == (Step("site", "work"), 2.0)
    assert profile.seconds == 20.0


def test_steps_that_do_not_fit_are_refused() -> None:
    with pytest.raises(PenstockError, match="the steps of task site-1 do not fit") as caught:
        task("site", "1", 0.0, 1.0, work=0.8, write=0.3)
    assert "1.1000 s of steps in 1.0000 s: work 0.8000, write 0.3000" in caught.value.detail
    with pytest.raises(PenstockError, match="the driver in epoch 7"):
        EpochProfile(7, 1.0, {"plan": 0.5, "run": 0.6}, ())
    with pytest.raises(PenstockError, match="do not fit"):
        task("site", "1", 0.0, 1.0, work=-0.1)
    task("site", "1", 0.0, 1.0, work=1.0005)  # as far as clocks differ


def test_a_run_has_cores() -> None:
    with pytest.raises(ConfigError, match="at least one core"):
        profile_of([WHOLE], 0)


def test_epochs_travel_as_json() -> None:
    sent = msgspec.json.encode([WHOLE])
    assert msgspec.json.decode(sent, type=list[EpochProfile]) == [WHOLE]


@st.composite
def epochs(draw: st.DrawFn) -> EpochProfile:
    lengths = st.floats(0.0, 2.0)
    driver = {name: draw(lengths) for name in ("plan", "run", "commit")}
    seconds = sum(driver.values()) + draw(lengths)
    return EpochProfile(1, seconds, driver, tuple(draw(st.lists(tasks(), max_size=5))))


@st.composite
def tasks(draw: st.DrawFn) -> TaskProfile:
    steps = draw(st.dictionaries(st.sampled_from(["read", "work", "write"]), st.floats(0.0, 1.0)))
    seconds, kind = sum(steps.values()) + draw(st.floats(0.0, 0.5)), draw(st.sampled_from(["route", "site"]))
    return task(kind, draw(st.sampled_from("123")), draw(st.floats(-1.0, 3.0)), seconds, **steps)


@settings(max_examples=100, deadline=None)
@given(st.lists(epochs(), min_size=1, max_size=3), st.integers(1, 4))
def test_parts_always_add_up_to_the_epoch(found: list[EpochProfile], cores: int) -> None:
    profile: Profile = profile_of(found, cores)
    for epoch, part in zip(profile.epochs, profile.parts, strict=True):
        assert sum(part.values()) == pytest.approx(epoch.seconds, abs=1e-9)
        assert min(part.values(), default=0.0) >= 0
    assert sum(part.share for part in profile.total) == pytest.approx(1.0 if profile.seconds else 0.0)


def test_json_has_an_object_per_step() -> None:
    profile = profile_of([WHOLE, EpochProfile(8, 8.0, {"plan": 8.0}, ())], 2)
    found = json.loads(profile_json(profile))
    assert found[0] == {"where": "driver", "step": "plan", "seconds": 9.0, "share": 0.45, "by_epoch": [1.0, 8.0]}
    assert sum(one["seconds"] for one in found) == pytest.approx(20.0)
