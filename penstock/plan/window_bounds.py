"""Limits on how many windows a row may be in. Memory is bounded, because results are made in blocks, but all of them
are made."""

from __future__ import annotations

import pyarrow as pa

from penstock.errors import QueryError
from penstock.operators.window.windows import Window
from penstock.units import span_text

MOST_WINDOWS = 1 << 26  # windows of an aggregate that a row may be in
MOST_COPIES = 1 << 20  # copies of a row, one for each of its windows


def check_aggregated(window: Window, time: pa.DataType) -> None:
    """Raise QueryError if a row is in more windows than an aggregate can close."""
    _check(window, time, MOST_WINDOWS, "each of them gives a result")


def check_assigned(window: Window, time: pa.DataType) -> None:
    """Raise QueryError if a row would be copied to too many windows."""
    _check(window, time, MOST_COPIES, "the row is copied to each of them")


def _check(window: Window, time: pa.DataType, most: int, why: str) -> None:
    if window.per_row <= most:
        return
    in_time = bool(pa.types.is_timestamp(time))
    size, slide, least = (span_text(span, in_time) for span in (window.size, window.slide, -(-window.size // most)))
    raise QueryError(
        f"every row would be in {window.per_row:,} windows of {size} every {slide}",
        detail=f"{why}, and at most {most:,} are possible",
        hint=f"use a slide of at least {least}, or a smaller size",
    )
