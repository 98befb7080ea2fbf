"""A driver on a plain local master, where Spark tries a task once: a worker is killed, and the epoch is run again.

Arguments: the seed, the folder, the exchange, the fault. Prints a line of JSON: whether a worker was killed, the events
and the lines of the log that are warnings, and which scratch folders of Spark others could read. The rows are checked
here.
"""

from __future__ import annotations

import json
import os
import stat
import sys
import tempfile
from pathlib import Path
from random import Random

from penstock.events import EpochDropped, Event, WorkerDied
from penstock.observe.log import LogFormat, LogLevel, LogOptions, logging_to
from penstock.testing.ways import Way
from tests.support.crashes import Place, assert_exact, finish, random_scenario

_PARKING = {"overflow": "park", "state_bytes": 1, "policy": "local", "round": "1ms"}  # so that there is a clean-up


def main(seed: str, folder: str, exchange: str, fault: str) -> None:
    place = Place(Path(folder))
    marker = Path(folder, "fired")
    os.environ.update(PENSTOCK_FAULT=fault, PENSTOCK_FAULT_ONCE=str(marker))
    scenario = random_scenario(Random(seed), batches=6)
    told: list[Event] = []
    log = Path(f"{folder}.jsonl")
    with logging_to(LogOptions(LogLevel.DEBUG, log, LogFormat.JSON)):
        parking = _PARKING if fault.startswith("site.cleaned") else {}
        finish(scenario, place, Way(sites=2), master="local[2]", exchange=exchange, on_event=told.append, **parking)
    assert_exact(scenario, place)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    found = {
        "killed": marker.exists(),
        "events": [{"event": type(e).__name__, **vars(e)} for e in told if isinstance(e, EpochDropped | WorkerDied)],
        "lines": [line for line in lines if line["level"] in ("warning", "error")],
        "readable": readable_by_others(),
    }
    print(json.dumps(found))


def readable_by_others() -> list[str]:
    """Return what others could open below the folder of temporary files. A private folder hides what is in it."""
    found = []
    for path, folders, files in os.walk(tempfile.gettempdir()):
        open_to_others = [name for name in folders + files if _is_open(Path(path, name))]
        found += [str(Path(path, name)) for name in open_to_others]
        folders[:] = [name for name in folders if name in open_to_others]
    return found


def _is_open(path: Path) -> bool:
    return bool(path.lstat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))


if __name__ == "__main__":
    main(*sys.argv[1:])
