"""Windows and progress rules as users write them."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.config import span
from penstock.operators.window import Window
from penstock.progress.rules import Ordered, Slack


@dataclass(frozen=True)
class WindowSpec:
    """A window that does not know its time column yet."""

    size: int
    slide: int
    offset: int

    def over(self, time: str) -> Window:
        return Window(time, self.size, self.slide, self.offset)


def tumbling(size: str | int, offset: str | int = 0) -> WindowSpec:
    """Windows of `size` one after another: `tumbling("10s")`. Integers count in the unit of the time column."""
    return WindowSpec(span(size), span(size), span(offset))


def sliding(size: str | int, every: str | int, offset: str | int = 0) -> WindowSpec:
    """Windows of `size`, a new one beginning every `every`: `sliding("1m", every="10s")`."""
    return WindowSpec(span(size), span(every), span(offset))


def slack(by: str | int) -> Slack:
    """Rows come at most `by` behind the latest one seen: `slack("2s")`."""
    return Slack(span(by))


def ordered() -> Ordered:
    """Rows come in order of time."""
    return Ordered()
