"""What all pictures of a report begin and end with: a figure, and a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DOTS = 120  # an inch


def empty_figure(what: str, width: float, height: float) -> Figure:
    """So many inches wide and high; `what` is to be drawn on it."""
    try:
        from matplotlib.figure import Figure  # imported late: only a report needs it
    except ImportError as error:
        raise ConfigError(
            f"{what} needs matplotlib", detail=str(error), hint="pip install 'penstock[plots]'"
        ) from error
    return Figure(figsize=(width, height))


def saved(figure: Figure, path: Path) -> Path:
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=_DOTS)
    return path
