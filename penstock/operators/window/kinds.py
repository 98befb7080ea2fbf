"""Groupings of rows other than time windows: sessions, windows of rows, and equal times."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import QueryError


@dataclass(frozen=True)
class Session:
    """Sessions: rows of a key less than `gap` apart form one session, `[first time, last time + gap)`.

    Invariant: gap > 0. A row exactly `gap` after the last one begins a new session.
    """

    time: str
    gap: int

    def __post_init__(self) -> None:
        if self.gap <= 0:
            hint = "as in SESSION(stream, ts, INTERVAL '5' MINUTE), or ps.session(\"5m\")"
            raise QueryError("a session needs a gap above zero", detail=f"the gap is {self.gap}", hint=hint)


@dataclass(frozen=True)
class RowWindow:
    """Windows of `size` rows, a new one every `slide` rows, over the row numbers assigned where rows enter the system.

    Invariant: size > 0, slide > 0. Rows are numbered per source, from 0, before any filter. A window starts at every
    multiple of `slide`, including negative ones whose windows contain the first rows.
    """

    size: int
    slide: int

    def __post_init__(self) -> None:
        if self.size <= 0 or self.slide <= 0:
            raise QueryError(
                "a window of rows needs a size and a slide above zero",
                detail=f"size {self.size}, slide {self.slide}",
                hint="as in [ROWS 100 SLIDE 10], or ps.rows(100, every=10)",
            )


@dataclass(frozen=True)
class EqualTimes:
    """Groups of rows with equal values in all of some progressing attributes: `GROUP BY ts`, or both times of a join.

    Invariant: at least one time, all different.
    """

    times: tuple[str, ...]
