"""Windows as users write them, before they are bound to a time column."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import pyarrow as pa

from penstock.api.lengths import Length, as_length, length_over
from penstock.operators.window.gaps import gap_warning
from penstock.operators.window.kinds import RowWindow, Session
from penstock.operators.window.windows import Window
from penstock.units import span
from penstock.user_code import caller_depth

_HOW_GAPS = "the size comes first, then every=...; write gaps=True if this is meant"


@dataclass(frozen=True)
class WindowSpec:
    """A window that is not yet bound to a time column and its unit; `time` is the column if the user named one."""

    size: Length
    slide: Length
    offset: Length
    time: str | None = None

    def over(self, time: str, type_: pa.DataType) -> Window:
        """Bind the window to a time column of this type."""
        named = ((self.size, "the size"), (self.slide, "the slide"), (self.offset, "the offset"))
        size, slide, offset = (length_over(length, type_, f"{name} of a window") for length, name in named)
        return Window(time, size, slide, offset)


@dataclass(frozen=True)
class SessionSpec:
    """Sessions that are not yet bound to a time column and its unit; `time` is the column if the user named one."""

    gap: Length
    time: str | None = None

    def over(self, time: str, type_: pa.DataType) -> Session:
        """Bind the sessions to a time column of this type."""
        return Session(time, length_over(self.gap, type_, "the gap of a session"))


def tumbling(size: Length, offset: Length = 0, *, time: str | None = None) -> WindowSpec:
    """Define windows of `size`, one after another: `tumbling("10s")`. A number counts in the unit of a BIGINT time.
    `offset` shifts their starts. `time` names the time column if it is not the default one: `tumbling("1m",
    time="right_ts")`."""
    return sliding(size, size, offset, time=time)


def sliding(
    size: Length, every: Length, offset: Length = 0, *, time: str | None = None, gaps: bool = False
) -> WindowSpec:
    """Define windows of `size`, one starting every `every`: `sliding("1m", every="10s")`. If `every` is larger than
    `size`, rows between windows belong to none; `gaps=True` says that this is intended and turns the warning off."""
    spec = WindowSpec(
        as_length(size, "the size of a window"),
        as_length(every, "the slide of a window"),
        as_length(offset, "the offset of a window"),
        time,
    )
    if not gaps:
        _warn_of_gaps(spec)
    return spec


def _warn_of_gaps(spec: WindowSpec) -> None:
    found = gap_warning(span(spec.size), span(spec.slide), (str(spec.size), str(spec.slide)), _HOW_GAPS)
    if found is not None:
        warnings.warn(found, stacklevel=caller_depth())


def session(gap: Length, *, time: str | None = None) -> SessionSpec:
    """Define sessions: rows of a group, each less than `gap` after the one before, as in `session("5m")`. A session
    ends `gap` after its last row."""
    return SessionSpec(as_length(gap, "the gap of a session"), time)


def rows(size: int, every: int | None = None) -> RowWindow:
    """Define windows of `size` rows, one starting every `every` rows (default: one after another). Rows are counted
    where the source is read, before any filter, so the input must be a single source."""
    return RowWindow(size, size if every is None else every)
