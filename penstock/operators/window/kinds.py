"""The other ways to say which rows of an aggregate belong together, beside windows of time."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import QueryError


@dataclass(frozen=True)
class Session:
    """Rows of a key that follow each other in less than `gap` form one session, `[first time, last time + gap)`.

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
    """Windows over the numbers that rows have where they enter the system: `size` rows, a new one every `slide` rows.

    Invariant: size > 0, slide > 0. Rows are counted per source, from 0, before any filter; a window starts at every
    multiple of `slide`, also at those below zero that reach the first rows.
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
class Moments:
    """Rows with equal values in all of some progressing attributes: `GROUP BY ts`, or both times of a join.

    Invariant: at least one time, all different.
    """

    times: tuple[str, ...]
