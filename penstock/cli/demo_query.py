"""The query of the demo: a script that the demo runs and that users can read, change and run again."""

from __future__ import annotations

import time
from pathlib import Path

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
