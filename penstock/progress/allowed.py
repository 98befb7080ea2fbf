"""Allowed lateness: an extra delay of a source's punctuation behind what its rule derives."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from penstock.errors import ConfigError
from penstock.progress.mark import Rule
from penstock.units import span


def allowing(rule: Rule, lateness: str | int | timedelta | None, is_timestamp: bool) -> Rule:
    """Return the rule with its punctuation delayed by the allowed lateness, such as "10s", or a whole number if times
    are numbers. Raises ConfigError if the lateness is negative or has the wrong unit."""
    if lateness is None:
        return rule
    allowed = span_of_times(lateness, is_timestamp)
    if allowed < 0:
        raise ConfigError(
            "the allowed lateness cannot be below zero",
            detail=f"it is {lateness!r}",
            hint="use a span of zero or more, or omit it",
        )
    return replace(rule, allowed=allowed)


def span_of_times(lateness: str | int | timedelta, is_timestamp: bool) -> int:
    """Return a span in the unit of the times: microseconds if they are timestamps. Raises ConfigError if a timestamp
    span has no unit, or the span of a numeric time has one."""
    bare = not isinstance(lateness, timedelta) and str(lateness).strip().lstrip("-").isdecimal()
    if bare and not is_timestamp:
        return int(str(lateness))
    if bare:
        raise ConfigError(
            f"the allowed lateness {lateness} has no unit",
            detail="the time of the source is a TIMESTAMP",
            hint=f'give it a unit, as in "{lateness}s"',
        )
    if not is_timestamp:
        raise ConfigError(
            f"the allowed lateness {lateness!r} has a unit, but the time of the source is a number",
            hint="write a whole number in the unit of the time column",
        )
    return span(lateness)
