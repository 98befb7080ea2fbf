"""Windows and progress rules as users write them."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.config import span
from penstock.operators.window import Window
from penstock.operators.window_kinds import RowWindow, Session
from penstock.progress.rules import Ordered, Slack


@dataclass(frozen=True)
class WindowSpec:
    """A window that does not know its time column yet, unless the user named one."""

    size: int
    slide: int
    offset: int
    time: str | None = None

    def over(self, time: str) -> Window:
        return Window(time, self.size, self.slide, self.offset)


@dataclass(frozen=True)
class SessionSpec:
    """Sessions that do not know their time column yet, unless the user named one."""

    gap: int
    time: str | None = None

    def over(self, time: str) -> Session:
        return Session(time, self.gap)


def tumbling(size: str | int, offset: str | int = 0, *, time: str | None = None) -> WindowSpec:
    """Windows of `size` one after another: `tumbling("10s")`. Integers count in the unit of the time column. `time`
    chooses another time than the usual one, as in `tumbling("1m", time="right_ts")` behind a join."""
    return WindowSpec(span(size), span(size), span(offset), time)


def sliding(size: str | int, every: str | int, offset: str | int = 0, *, time: str | None = None) -> WindowSpec:
    """Windows of `size`, a new one beginning every `every`: `sliding("1m", every="10s")`."""
    return WindowSpec(span(size), span(every), span(offset), time)


def session(gap: str | int, *, time: str | None = None) -> SessionSpec:
    """Rows of a group that follow each other in less than `gap`: `session("5m")`. A session ends a gap after its last
    row."""
    return SessionSpec(span(gap), time)


def rows(size: int, every: int | None = None) -> RowWindow:
    """Windows of `size` rows, a new one every `every` rows (without it, one after another). Rows are counted where the
    source is read, before any filter, so this needs the rows of one source."""
    return RowWindow(size, size if every is None else every)


def slack(by: str | int) -> Slack:
    """Rows come at most `by` behind the latest one seen: `slack("2s")`."""
    return Slack(span(by))


def ordered() -> Ordered:
    """Rows come in order of time."""
    return Ordered()
