"""Allowed lateness: how much further than its rule says the punctuation of a source is held back."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from penstock.errors import ConfigError
from penstock.progress.rules import Rule
from penstock.settings import span


def allowing(rule: Rule, lateness: str | int | timedelta | None, is_timestamp: bool) -> Rule:
    """The rule with its punctuation held back by the allowed lateness: "10s", or a number where times are numbers."""
    if lateness is None:
        return rule
    allowed = span_of_times(lateness, is_timestamp)
    if allowed < 0:
        raise ConfigError(
            "the allowed lateness cannot be below zero",
            detail=f"it is {lateness!r}",
            hint="give it a span, or leave it out",
        )
    return replace(rule, allowed=allowed)


def span_of_times(told: str | int | timedelta, is_timestamp: bool) -> int:
    """A span in the unit of some times. A bare number means nothing where they are timestamps."""
    bare = not isinstance(told, timedelta) and str(told).strip().lstrip("-").isdecimal()
    if bare and not is_timestamp:
        return int(str(told))
    if bare:
        raise ConfigError(
            f"the allowed lateness {told} has no unit",
            detail="the time of the source is a TIMESTAMP",
            hint=f'give it a unit, as in "{told}s"',
        )
    if not is_timestamp:
        raise ConfigError(
            f"the allowed lateness {told!r} has a unit, but the time of the source is a number",
            hint="write a whole number of whatever the times count",
        )
    return span(told)
