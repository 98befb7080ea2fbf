"""Conditions that end a run before the end of its input."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from penstock.errors import ConfigError
from penstock.units import span


class _Counts(Protocol):
    @property
    def epochs(self) -> int: ...
    @property
    def rows_in(self) -> int: ...
    @property
    def elapsed(self) -> float: ...


@dataclass(frozen=True)
class Until:
    """Limits of a run; the first one reached ends it. None means no limit."""

    epochs: int | None = None
    rows: int | None = None
    seconds: float | None = None

    def reached(self, counts: _Counts) -> bool:
        """Return whether a limit is reached."""
        return (
            (self.epochs is not None and counts.epochs >= self.epochs)
            or (self.rows is not None and counts.rows_in >= self.rows)
            or (self.seconds is not None and counts.elapsed >= self.seconds)
        )


_COUNT = re.compile(r"([\d_]+)\s*(epochs?|rows?)")


def parse_until(text: str | None) -> Until:
    """Parse "100 epochs", "1_000_000 rows" or a span of time such as "30s"."""
    if not text:
        return Until()
    if match := _COUNT.fullmatch(text.strip().lower()):
        count = int(match[1])
        return Until(epochs=count) if match[2].startswith("epoch") else Until(rows=count)
    try:
        if (microseconds := span(text)) > 0:
            return Until(seconds=microseconds / 1e6)
        raise ConfigError("it is not above zero", hint="give it a span above zero")
    except ConfigError:
        raise ConfigError(
            f"`{text}` is neither a count nor a span of time", hint='write "100 epochs", "1_000_000 rows" or "30s"'
        ) from None
