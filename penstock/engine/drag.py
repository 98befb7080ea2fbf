"""Drag: sites that are slower than they need be, for experiments.

PENSTOCK_DRAG names a file with a `Drag` as JSON; without it nothing happens. The file may be replaced while a query
runs, and every site step looks at it again.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import msgspec

VARIABLE = "PENSTOCK_DRAG"


@dataclass(frozen=True)
class Slowed:
    """A site is slowed from `begin` to `end`, in seconds of the experiment: with each item it takes `again` times the
    time that the item took already."""

    site: int
    begin: float
    end: float
    again: float = 1.0


@dataclass(frozen=True)
class Drag:
    """Every row that is worked on takes `row_seconds` more. The experiment began at `began`, by the system's clock."""

    began: float
    row_seconds: float = 0.0
    slowed: tuple[Slowed, ...] = ()

    def pause(self, site: int, rows: int, took: float, now: float) -> float:
        """How long a site sleeps after an item of so many rows that took `took` seconds."""
        cost, at = rows * self.row_seconds, now - self.began
        again = sum(one.again for one in self.slowed if one.site == site and one.begin <= at < one.end)
        return cost + (cost + took) * again


def write_drag(drag: Drag, path: Path) -> None:
    """Replace the drag of all processes that look at this file."""
    fresh = path.with_suffix(".new")
    fresh.write_bytes(msgspec.json.encode(drag))
    fresh.replace(path)


def current_drag() -> Drag | None:
    """The drag of now; None outside experiments."""
    name = os.environ.get(VARIABLE)
    if not name:
        return None
    try:
        return _read(name, os.stat(name).st_mtime_ns)
    except FileNotFoundError:
        return None


@lru_cache(maxsize=1)
def _read(name: str, changed: int) -> Drag:
    return msgspec.json.decode(Path(name).read_bytes(), type=Drag)
