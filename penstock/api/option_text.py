"""Options that come as text, from `WITH (...)`, `SET` and the command line, turned into values."""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, get_args, get_origin, get_type_hints

from penstock.api.until import parse_until
from penstock.errors import ConfigError, did_you_mean
from penstock.settings import Settings, span, yes_or_no

Reader = Callable[[str], Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_options(
    options: Mapping[str, str], readers: Mapping[str, Reader], owner: str, others: Sequence[str] = ()
) -> dict[str, Any]:
    """Each option by its reader; one that is not known, or has a value that cannot be read, is an error. `others` are
    options that are read elsewhere: one that is misspelt may be meant to be one of them."""
    for name in options:
        if name not in readers:
            raise ConfigError(f"{owner} has no option `{name}`", hint=did_you_mean(name, [*readers, *others]))
    return {name: _read(name, text, readers[name]) for name, text in options.items()}


def _read(name: str, text: str, reader: Reader) -> Any:
    try:
        return reader(text)
    except ConfigError as error:
        raise ConfigError(f"`{name}` cannot be `{text}`", detail=error.what, hint=error.hint) from error


def whole_number(text: str) -> int:
    try:
        return int(text.replace("_", "").replace(",", ""))
    except ValueError:
        raise ConfigError("it is not a whole number", hint="write digits only, as in 100000") from None


def number(text: str) -> float:
    try:
        if math.isfinite(value := float(text.replace("_", ""))):
            return value
        raise ValueError("not finite")
    except ValueError:
        raise ConfigError("it is not a number", hint="write it as in 100000 or 0.5") from None


def time_span(text: str) -> int:
    """A span in microseconds; it needs a unit, since a bare number could mean anything."""
    return span(text)


def point_in_time(text: str) -> int:
    """Microseconds since 1970: as a whole number, or of a date and time in UTC."""
    if text.removeprefix("-").isdecimal():
        return int(text)
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError("it is not a point in time", hint="write it as in 2024-01-31 12:00:00") from None
    at = read if read.tzinfo else read.replace(tzinfo=UTC)
    return (at - _EPOCH) // timedelta(microseconds=1)


_SPANS = ("epoch", "deadline", "round")


def read_settings(options: Mapping[str, str]) -> dict[str, Any]:
    """The options of `start` from text: the fields of Settings, and spans and `until` as users write them."""
    return read_options(options, _setting_readers(), "a run")


def _setting_readers() -> dict[str, Reader]:
    hints = get_type_hints(Settings)
    by_type = {name: _reader_of(hint) for name, hint in hints.items()}
    spans = dict.fromkeys(_SPANS, _checked(time_span))
    return by_type | spans | {"max_lead": _span_or_number, "until": _checked(parse_until)}


def _span_or_number(text: str) -> str | int:
    """A span as it is written, once it has been checked; a plain number is one of whatever the times count."""
    return int(text) if text.strip().isdecimal() else _checked(time_span)(text)


def _checked(check: Reader) -> Callable[[str], str]:
    """The text itself once it has been checked: `start` reads it again."""

    def reader(text: str) -> str:
        check(text)
        return text

    return reader


def _reader_of(hint: Any) -> Reader:
    kinds = get_args(hint) if get_origin(hint) is types.UnionType else (hint,)
    readers: dict[Any, Reader] = {bool: yes_or_no, int: whole_number, float: number, str: str}
    return next(readers[kind] for kind in kinds if kind in readers)
