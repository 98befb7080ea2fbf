"""A profile for programs: one object per step, the dearest first."""

from __future__ import annotations

from typing import TypedDict

import msgspec

from penstock_bench.profile.shares import Profile


class StepRecord(TypedDict):
    """Wall seconds of a step in the whole run, their share, and the seconds in each epoch."""

    where: str
    step: str
    seconds: float
    share: float
    by_epoch: list[float]


def step_records(profile: Profile) -> list[StepRecord]:
    return [
        StepRecord(
            where=step.place,
            step=step.name,
            seconds=seconds,
            share=share,
            by_epoch=[parts.get(step, 0.0) for parts in profile.parts],
        )
        for step, seconds, share in profile.total
    ]


def profile_json(profile: Profile) -> str:
    return msgspec.json.format(msgspec.json.encode(step_records(profile)), indent=2).decode()
