"""Draws the pictures of the documentation: docs/pictures/*.txt to SVG files beside them.

A picture lies on a grid of cells; columns and rows count from 0, and `2-3` covers two of them. Its text has one item
per line:

    title The title
    frame COLUMNS ROWS "Label"
    box NAME COLUMNS ROWS "Heading" "Line" ...
    arrow NAME.SIDE -> NAME.SIDE "Label"

Sides are left, right, top and bottom. `<->` has a head at both ends. An arrow between opposite sides must be straight:
it is drawn in the middle of what the two boxes share. `#` begins a comment. The same text always gives the same file.
"""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
CELL, ROW, GAP_X, GAP_Y, MARGIN, TITLE = 156, 74, 42, 62, 34, 40
LETTER = 6.0  # the width of a letter of the lines in a box, on average
PAPER, INK, SOFT, LINE = "#fbfcfe", "#17202c", "#56637a", "#3b5b92"
FRAME, FRAME_LINE, BOX, BOX_LINE = "#eef2f8", "#c9d3e3", "#ffffff", "#8ea3c4"
FONT = "font-family=\"system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif\""


class PictureError(ValueError):
    """A line of a picture's text that cannot be drawn."""


@dataclass(frozen=True)
class Area:
    """A rectangle in pixels."""

    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True)
class Box:
    """A labelled rectangle of the picture."""

    area: Area
    heading: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Arrow:
    """A line between two sides of boxes, each written as `name.side`."""

    start: str
    end: str
    both: bool
    label: str


@dataclass
class Picture:
    """The items of a picture, in the order of its text."""

    title: str = ""
    frames: list[Box] = field(default_factory=list)
    boxes: dict[str, Box] = field(default_factory=dict)
    arrows: list[Arrow] = field(default_factory=list)


def read(text: str) -> Picture:
    """Return the picture that a text describes. Raises PictureError for a line that is none of the items."""
    picture = Picture()
    for number, line in enumerate(text.splitlines(), 1):
        try:
            _read_line(picture, line.strip())
        except (ValueError, KeyError) as error:
            raise PictureError(f"line {number}: {error}") from error
    return picture


def _read_line(picture: Picture, line: str) -> None:
    if not line or line.startswith("#"):
        return
    kind, _, rest = line.partition(" ")
    if kind == "title":
        picture.title = rest
        return
    match kind, shlex.split(rest):
        case "frame", [columns, rows, label]:
            picture.frames.append(Box(_frame(columns, rows), label, ()))
        case "box", [name, columns, rows, heading, *lines]:
            picture.boxes[name] = _fitting(Box(_area(columns, rows), heading, tuple(lines)))
        case "arrow", [start, "->" | "<->" as heads, end, *label]:
            picture.arrows.append(Arrow(start, end, heads == "<->", " ".join(label)))
        case _:
            raise PictureError(f"not an item of a picture: {line}")


def _fitting(box: Box) -> Box:
    """Return the box. Raises PictureError if its text is wider or higher than the box."""
    width, height = box.area.right - box.area.left, box.area.bottom - box.area.top
    widest = max([len(box.heading) * (LETTER + 0.8), *(len(line) * LETTER for line in box.lines)])
    if widest > width - 10 or 22 + 15 * len(box.lines) > height:
        raise PictureError(f"`{box.heading}` has more text than its box holds")
    return box


def _span(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def _area(columns: str, rows: str) -> Area:
    (left, right), (top, bottom) = _span(columns), _span(rows)
    x, y = MARGIN + left * (CELL + GAP_X), MARGIN + TITLE + top * (ROW + GAP_Y)
    width, height = (right - left) * (CELL + GAP_X) + CELL, (bottom - top) * (ROW + GAP_Y) + ROW
    return Area(x, y, x + width, y + height)


def _frame(columns: str, rows: str) -> Area:
    """Return an area around cells, with room for a label above them."""
    inner = _area(columns, rows)
    return Area(inner.left - 16, inner.top - 26, inner.right + 16, inner.bottom + 12)


def draw(picture: Picture) -> str:
    """Return the picture as SVG, on a background of its own: it reads alike on light and dark pages."""
    areas = [box.area for box in (*picture.frames, *picture.boxes.values())]
    width, height = max(a.right for a in areas) + MARGIN - 12, max(a.bottom for a in areas) + MARGIN - 12
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" role="img" aria-label="{escape(picture.title)}" {FONT}>',
        f"<title>{escape(picture.title)}</title>",
        '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
        f'orient="auto-start-reverse"><path d="M0 0 L10 5 L0 10 z" fill="{LINE}"/></marker></defs>',
        f'<rect width="{width:g}" height="{height:g}" rx="14" fill="{PAPER}" stroke="{FRAME_LINE}"/>',
        _text(MARGIN - 16, 34, picture.title, 17, INK, "start", bold=True),
        *(_drawn_frame(frame) for frame in picture.frames),
        *(_drawn_box(box) for box in picture.boxes.values()),
        *(_drawn_arrow(picture.boxes, arrow) for arrow in picture.arrows),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _rectangle(area: Area, fill: str, line: str, radius: int) -> str:
    width, height = area.right - area.left, area.bottom - area.top
    place = f'x="{area.left:g}" y="{area.top:g}" width="{width:g}" height="{height:g}"'
    return f'<rect {place} rx="{radius}" fill="{fill}" stroke="{line}"/>'


def _text(x: float, y: float, text: str, size: float, fill: str, anchor: str = "middle", bold: bool = False) -> str:
    weight = ' font-weight="600"' if bold else ""
    place = f'x="{x:g}" y="{y:g}" font-size="{size:g}" text-anchor="{anchor}"'
    return f'<text {place} fill="{fill}"{weight}>{escape(text)}</text>'


def _drawn_frame(frame: Box) -> str:
    area = frame.area
    label = _text(area.left + 12, area.top + 17, frame.heading, 12, SOFT, "start", bold=True)
    return f"{_rectangle(area, FRAME, FRAME_LINE, 12)}\n{label}"


def _drawn_box(box: Box) -> str:
    area = box.area
    middle, first = (area.left + area.right) / 2, (area.top + area.bottom) / 2 + 5 - 7.5 * len(box.lines)
    lines = [_text(middle, first + 16 + 15 * n, line, 11.5, SOFT) for n, line in enumerate(box.lines)]
    heading = _text(middle, first, box.heading, 13.5, INK, bold=True)
    return "\n".join([_rectangle(area, BOX, BOX_LINE, 8), heading, *lines])


def _drawn_arrow(boxes: dict[str, Box], arrow: Arrow) -> str:
    start, end = (_end(boxes, place) for place in (arrow.start, arrow.end))
    points = _points(arrow, *start, *end)
    path = " ".join(f"{'L' if n else 'M'}{x:g} {y:g}" for n, (x, y) in enumerate(points))
    heads = ' marker-end="url(#head)"' + (' marker-start="url(#head)"' if arrow.both else "")
    line = f'<path d="{path}" fill="none" stroke="{LINE}" stroke-width="1.6"{heads}/>'
    return f"{line}\n{_label(points, arrow.label)}" if arrow.label else line


def _end(boxes: dict[str, Box], place: str) -> tuple[Area, str]:
    name, _, side = place.partition(".")
    if name not in boxes or side not in ("left", "right", "top", "bottom"):
        raise PictureError(f"no side of a box: {place}")
    return boxes[name].area, side


def _points(arrow: Arrow, one: Area, out: str, other: Area, into: str) -> list[tuple[float, float]]:
    """Return the corners of an arrow: a straight line between opposite sides, otherwise one with a single corner."""
    upright = {"top", "bottom"}
    if out in upright and into in upright:
        x = _shared(arrow, one.left, one.right, other.left, other.right)
        return [(x, _edge(one, out)), (x, _edge(other, into))]
    if out not in upright and into not in upright:
        y = _shared(arrow, one.top, one.bottom, other.top, other.bottom)
        return [(_edge(one, out), y), (_edge(other, into), y)]
    if out in upright:
        x, y = (one.left + one.right) / 2, (other.top + other.bottom) / 2
        return [(x, _edge(one, out)), (x, y), (_edge(other, into), y)]
    x, y = (other.left + other.right) / 2, (one.top + one.bottom) / 2
    return [(_edge(one, out), y), (x, y), (x, _edge(other, into))]


def _edge(area: Area, side: str) -> float:
    away = 2 if side in ("right", "bottom") else -2
    return float(getattr(area, side)) + away


def _shared(arrow: Arrow, low: float, high: float, other_low: float, other_high: float) -> float:
    first, last = max(low, other_low), min(high, other_high)
    if first >= last:
        raise PictureError(f"{arrow.start} and {arrow.end} are not opposite each other")
    return (first + last) / 2


def _label(points: list[tuple[float, float]], label: str) -> str:
    """Return the label beside the middle of an upright arrow, or above a level one."""
    (x, y), (u, v) = points[0], points[-1]
    if x == u:
        return _text(x + 8, (y + v) / 2 + 4, label, 11, LINE, "start")
    return _text((x + u) / 2, min(y, v) - 6, label, 11, LINE)


def written(folder: Path = FOLDER) -> dict[Path, str]:
    """Return what each SVG file should hold."""
    return {path.with_suffix(".svg"): draw(read(path.read_text())) for path in sorted(folder.glob("*.txt"))}


def main() -> None:
    """Write all pictures, and name them."""
    for path, svg in written().items():
        path.write_text(re.sub(r"[ \t]+$", "", svg, flags=re.MULTILINE))
        print(path.relative_to(FOLDER.parents[1]), file=sys.stderr)


if __name__ == "__main__":
    main()
