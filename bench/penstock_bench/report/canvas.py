"""What all pictures of a report begin and end with: a figure, and a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DOTS = 120  # an inch


def empty_figure(width: float, height: float) -> Figure:
    """Return a figure that is so many inches wide and high."""
    from matplotlib.figure import Figure  # imported late: only a report needs it

    return Figure(figsize=(width, height))


def saved(figure: Figure, path: Path) -> Path:
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=_DOTS)
    return path
