"""Windows as users write them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import pyarrow as pa

from penstock.api.lengths import Length, as_length, length_over
from penstock.operators.window.gaps import gap_warning
from penstock.operators.window.kinds import RowWindow, Session
from penstock.operators.window.windows import Window
from penstock.settings import span
from penstock.user_code import caller_depth

_HOW_GAPS = "the size comes first, then every=...; write gaps=True if this is meant"


@dataclass(frozen=True)
class WindowSpec:
    """A window that does not know its time column yet, unless the user named one, nor what that counts."""

    size: Length
    slide: Length
    offset: Length
    time: str | None = None

    def over(self, time: str, type_: pa.DataType) -> Window:
        named = ((self.size, "the size"), (self.slide, "the slide"), (self.offset, "the offset"))
        size, slide, offset = (length_over(length, type_, f"{name} of a window") for length, name in named)
        return Window(time, size, slide, offset)


@dataclass(frozen=True)
class SessionSpec:
    """Sessions that do not know their time column yet, unless the user named one, nor what that counts."""

    gap: Length
    time: str | None = None

    def over(self, time: str, type_: pa.DataType) -> Session:
        return Session(time, length_over(self.gap, type_, "the gap of a session"))


def tumbling(size: Length, offset: Length = 0, *, time: str | None = None) -> WindowSpec:
    """Windows of `size` one after another: `tumbling("10s")`. A number is one of a BIGINT time, in its unit. `time`
    chooses another time than the usual one, as in `tumbling("1m", time="right_ts")` behind a join."""
    return sliding(size, size, offset, time=time)


def sliding(
    size: Length, every: Length, offset: Length = 0, *, time: str | None = None, gaps: bool = False
) -> WindowSpec:
    """Windows of `size`, a new one beginning every `every`: `sliding("1m", every="10s")`. Where `every` is larger than
    `size`, rows between the windows are in none; `gaps=True` says that this is meant, and there is no warning."""
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
    """Rows of a group that follow each other in less than `gap`: `session("5m")`. A session ends a gap after its last
    row."""
    return SessionSpec(as_length(gap, "the gap of a session"), time)


def rows(size: int, every: int | None = None) -> RowWindow:
    """Windows of `size` rows, a new one every `every` rows (without it, one after another). Rows are counted where the
    source is read, before any filter, so this needs the rows of one source."""
    return RowWindow(size, size if every is None else every)
