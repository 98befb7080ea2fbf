"""Read the published results of the demo as they appear."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq


@dataclass(frozen=True)
class Suspect:
    """A caller in the latest window. `before` is its number of calls in the window before; 0 if it was not in the
    results."""

    caller: int
    calls: int
    callees: int
    mean_seconds: float
    before: int


class Results:
    """Follows a folder of Parquet files. Invariant: `_windows` holds the latest two windows with results."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._seen = folder, set[str]()
        self._windows: dict[datetime, dict[int, tuple[int, int, float]]] = {}  # by end, then by caller

    def read_new(self) -> None:
        """Read the files that have appeared since the last call."""
        for path in sorted(self._folder.glob("*.parquet")):
            if path.name not in self._seen:
                self._seen.add(path.name)
                self._take(path)

    def _take(self, path: Path) -> None:
        rows = pq.read_table(path)
        recent = rows.filter(pc.field("window_end") >= min(sorted(self._windows)[-2:], default=datetime(1970, 1, 1)))
        for row in recent.to_pylist():
            window = self._windows.setdefault(row["window_end"], {})
            window[row["caller"]] = row["calls"], row["callees"], row["mean_seconds"]
        self._windows = {end: self._windows[end] for end in sorted(self._windows)[-2:]}

    @property
    def latest(self) -> datetime | None:
        """Return the end of the latest window; None before the first."""
        return max(self._windows, default=None)

    def suspects(self, most: int) -> list[Suspect]:
        """Return the busiest callers of the latest window, busiest first, at most `most`."""
        if self.latest is None:
            return []
        before = self._windows[min(self._windows)] if len(self._windows) == 2 else {}
        found = [
            Suspect(caller, *facts, before.get(caller, (0, 0, 0.0))[0])
            for caller, facts in self._windows[self.latest].items()
        ]
        return sorted(found, key=lambda one: -one.calls)[:most]
