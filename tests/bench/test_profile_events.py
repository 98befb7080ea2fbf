from __future__ import annotations

from penstock.events import EpochTimed, RunFinished, TaskTimed
from penstock_bench.profile.events import epoch_profiles, profile_of_events
from penstock_bench.profile.shares import EpochProfile, TaskProfile


def timed(epoch: int, *tasks: tuple[str, str, float]) -> EpochTimed:
    told = tuple(TaskTimed(f"{kind}-0", kind, worker, at, 1.0, {"work": 0.5}) for kind, worker, at in tasks)
    return EpochTimed(epoch, 4.0, {"plan": 1.0, "run": 3.0}, told)


EVENTS = [
    timed(1, ("site", "host:20", 2.0), ("route", "host:10", 1.0)),
    RunFinished(1),
    timed(2, ("route", "host:20", 1.0), ("site", "host:30", 2.0)),
]


def test_timed_epochs_become_a_profile() -> None:
    assert epoch_profiles(EVENTS)[0] == EpochProfile(
        1,
        4.0,
        {"plan": 1.0, "run": 3.0},
        (
            TaskProfile("site-0", "site", "2", 2.0, 1.0, {"work": 0.5}),
            TaskProfile("route-0", "route", "1", 1.0, 1.0, {"work": 0.5}),
        ),
    )
    profile = profile_of_events(EVENTS, 2)
    assert [epoch.epoch for epoch in profile.epochs] == [1, 2]
    assert profile.seconds == 8.0


def test_a_worker_keeps_its_number_and_loses_its_name() -> None:
    assert [[task.worker for task in epoch.tasks] for epoch in epoch_profiles(EVENTS)] == [["2", "1"], ["2", "3"]]
