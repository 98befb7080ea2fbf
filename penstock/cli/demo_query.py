"""The query of the demo: a script that the demo runs and that users can read, change and run again.

Its published results are read as they appear.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

WINDOW_SECONDS = 10
_SUSPICIOUS_SHARE = 0.005  # of all calls in a window

_SCRIPT = """\
-- Call records as they happen: up to 2 s out of order, a few callers far busier than the rest.
-- The watermark waits a little less than that, and a row below it counts in no window: about 1 % are late on purpose.
SET lateness = 'row';
CREATE SOURCE calls (WATERMARK FOR ts AS ts - INTERVAL '1800' MILLISECOND) WITH (
  connector = 'calls', realtime = true, rate = {rate}, keys = 20000, skew = 'zipf:1.2',
  disorder = '2s', split_rows = {split_rows}, start = {start}
);

-- Callers with suspiciously many calls in the last {window} seconds, every 2 seconds.
CREATE SINK suspicious WITH (connector = 'files', path = '{results}') AS
SELECT caller, window_end, count(*) AS calls, count(DISTINCT callee) AS callees, avg(duration) AS mean_seconds
FROM HOP(calls, ts, INTERVAL '2' SECOND, INTERVAL '{window}' SECOND)
GROUP BY caller, window_end
HAVING count(*) > {threshold};
"""


def demo_script(folder: Path, rate: int) -> str:
    """Return the script for a demo in `folder`, a path chosen by the demo that needs no quoting."""
    return _SCRIPT.format(
        rate=rate,
        split_rows=max(1000, rate),
        start=time.time_ns() // 1000,
        window=WINDOW_SECONDS,
        results=(folder / "results").as_posix(),
        threshold=threshold(rate),
    )


def threshold(rate: int) -> int:
    """Return the number of calls in a window from which a caller is suspicious."""
    return int(rate * WINDOW_SECONDS * _SUSPICIOUS_SHARE)


def new_folder(parent: Path = Path("demo-out")) -> Path:
    """Create demo-out/run-1, or the first number that is free, so that earlier results are kept."""
    parent.mkdir(exist_ok=True)
    number = 1
    while True:
        folder = parent / f"run-{number}"
        try:
            folder.mkdir()
        except FileExistsError:
            number += 1
        else:
            return folder


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
