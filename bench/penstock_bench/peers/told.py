"""How far a system is, told by its process through a file that the watchdog looks at."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PERIOD = 0.5


def tell(file: Path, rows: int, steps: int = 0) -> None:
    """Say that so many rows have been taken in, in so many epochs or micro-batches. Readers see all or nothing."""
    draft = file.with_suffix(".draft")
    draft.write_text(f"{rows} {steps}")
    os.replace(draft, file)


def told(file: Path) -> tuple[int, int] | None:
    """Return what was told last: rows and steps; None before the query has started."""
    if not file.exists():
        return None
    rows, _, steps = file.read_text().partition(" ")
    return int(rows), int(steps or 0)


@contextmanager
def telling(file: Path, now: Callable[[], tuple[int, int]]) -> Iterator[None]:
    """Tell of what `now` returns, again and again."""
    stop = threading.Event()

    def repeat() -> None:
        while not stop.wait(PERIOD):
            tell(file, *now())

    tell(file, 0)
    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        tell(file, *now())
