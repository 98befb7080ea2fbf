"""Parse options given as text, in `WITH (...)`, `SET` and on the command line."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from penstock.declared import Setting, declared
from penstock.errors import ConfigError, did_you_mean
from penstock.settings import Settings
from penstock.units import size, span

OptionReader = Callable[[str], Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_options(
    options: Mapping[str, str], readers: Mapping[str, OptionReader], owner: str, others: Sequence[str] = ()
) -> dict[str, Any]:
    """Parse each option with its reader. Raise ConfigError for an unknown option or a value that cannot be parsed.
    `others` are options that are parsed elsewhere, suggested for misspelt names."""
    for name in options:
        if name not in readers:
            raise ConfigError(f"{owner} has no option `{name}`", hint=did_you_mean(name, [*readers, *others]))
    return {name: _read(name, text, readers[name]) for name, text in options.items()}


def _read(name: str, text: str, reader: OptionReader) -> Any:
    try:
        return reader(text)
    except ConfigError as error:
        raise ConfigError(f"`{name}` cannot be `{text}`", detail=error.what, hint=error.hint) from error


def whole_number(text: str) -> int:
    """Parse a whole number; `_` and `,` may separate digits."""
    try:
        return int(text.replace("_", "").replace(",", ""))
    except ValueError:
        raise ConfigError("it is not a whole number", hint="write digits only, as in 100000") from None


def number(text: str) -> float:
    """Parse a finite number."""
    try:
        if math.isfinite(value := float(text.replace("_", ""))):
            return value
        raise ValueError("not finite")
    except ValueError:
        raise ConfigError("it is not a number", hint="write it as in 100000 or 0.5") from None


def time_span(text: str) -> int:
    """Parse a span of time and return microseconds; a unit is required."""
    return span(text)


def point_in_time(text: str) -> int:
    """Parse a point in time and return microseconds since 1970: a whole number, or a date and time (UTC by default)."""
    if text.removeprefix("-").isdecimal():
        return int(text)
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError("it is not a point in time", hint="write it as in 2024-01-31 12:00:00") from None
    at = read if read.tzinfo else read.replace(tzinfo=UTC)
    return (at - _EPOCH) // timedelta(microseconds=1)


def list_of(reader: OptionReader) -> OptionReader:
    """Return a reader of texts with commas between them, each of which `reader` parses."""
    return lambda text: tuple(reader(part.strip()) for part in text.split(","))


def read_settings(options: Mapping[str, str], readers: Mapping[str, OptionReader] | None = None) -> dict[str, Any]:
    """Parse settings, and options that other `readers` parse."""
    return read_options(options, {**setting_readers(), **(readers or {})}, "a run")


def setting_readers() -> dict[str, OptionReader]:
    """Return the reader of each setting, by its name and, for a length, by that of its field in seconds."""
    named = {one.name: _setting_reader(one) for one in declared(Settings)}
    return named | {one.field: number for one in declared(Settings) if one.field != one.name}


def _setting_reader(one: Setting) -> OptionReader:
    if one.name == "max_lead":
        return _span_or_number
    if one.is_size:
        return size
    readers: dict[Any, OptionReader] = {int: whole_number, float: checked(time_span)}
    return readers.get(one.kind, str)


def _span_or_number(text: str) -> str | int:
    """Return a plain number as an int, in the unit of the times; otherwise the text, checked to be a span."""
    return int(text) if text.strip().isdecimal() else checked(time_span)(text)


def checked(check: OptionReader) -> Callable[[str], str]:
    """Return a reader that checks the text and returns it unchanged, because `start` parses it again."""

    def reader(text: str) -> str:
        check(text)
        return text

    return reader
