"""The few shapes that the picture of a profile is drawn with, as SVG text. Ink is the colour of the surrounding text,
so the picture can be read on a light and on a dark page; every block says more when pointed at."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from html import escape
from typing import Literal, NamedTuple

from penstock_bench.profile.colours import ink_on

LETTER = 6.3  # width of a letter at the size used, about
_FONT = 'font-family="system-ui, sans-serif" font-size="11"'


class Block(NamedTuple):
    """A coloured rectangle with a label, drawn if there is room, and a text shown when pointed at."""

    left: float
    top: float
    width: float
    height: float
    colour: str
    label: str
    tip: str


def block(shape: Block) -> str:
    left, top, width, height, colour, label, tip = shape
    rectangle = (
        f'<rect x="{left:.2f}" y="{top:.2f}" width="{max(width, 0.3):.2f}" height="{height:.2f}" fill="{colour}"'
        f' stroke="#ffffff" stroke-width="{0.5 if width > 3 else 0}"/>'
    )
    fitting = _fitting(label, width) if height >= 12 else ""
    name = (
        f'<text x="{left + width / 2:.2f}" y="{top + height / 2 + 4:.2f}" text-anchor="middle" fill="{ink_on(colour)}">'
        f"{escape(fitting)}</text>"
        if fitting
        else ""
    )
    return f"<g><title>{escape(tip)}</title>{rectangle}{name}</g>"


def _fitting(label: str, width: float) -> str:
    """The label, or its part before the comma, or its first word, or nothing: whatever fits."""
    candidates = (label, label.partition(",")[0], label.partition(" ")[0])
    return next((text for text in candidates if len(text) * LETTER + 6 <= width), "")


def words(
    left: float, top: float, text: str, anchor: Literal["start", "middle", "end"] = "start", weight: str = "normal"
) -> str:
    return (
        f'<text x="{left:.2f}" y="{top:.2f}" text-anchor="{anchor}" font-weight="{weight}" fill="currentColor">'
        f"{escape(text)}</text>"
    )


def line(left: float, top: float, right: float, bottom: float, opacity: float = 0.25) -> str:
    return (
        f'<line x1="{left:.2f}" y1="{top:.2f}" x2="{right:.2f}" y2="{bottom:.2f}" stroke="currentColor"'
        f' stroke-opacity="{opacity}"/>'
    )


def track(left: float, top: float, width: float, height: float) -> str:
    """The ground of a lane: what stays visible of it is time without work."""
    return (
        f'<rect x="{left:.2f}" y="{top:.2f}" width="{width:.2f}" height="{height:.2f}" fill="currentColor"'
        ' fill-opacity="0.09"/>'
    )


def picture(width: float, height: float, title: str, shapes: Iterable[str]) -> str:
    """A whole picture, `title` being for those who cannot see it."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}"'
        f' height="{height:.0f}" role="img" aria-label="{escape(title)}" {_FONT}>'
        f"{''.join(shapes)}</svg>\n"
    )


def ticks(longest: float, about: int = 8) -> Iterator[float]:
    """Round values from 0 to at most `longest`, about so many."""
    if longest <= 0:
        return
    rough = longest / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    yield from (number * step for number in range(int(longest / step * 1.0001) + 1))


def duration(seconds: float) -> str:
    """Milliseconds below ten seconds, so that neighbours can be compared."""
    if seconds == 0:
        return "0"
    if seconds < 0.01:
        return f"{seconds * 1e3:.1f} ms"
    return f"{seconds * 1e3:.0f} ms" if seconds < 10 else f"{seconds:.1f} s"
