"""Collects what a long benchmark has finished, so that an interrupted hour is not lost."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TypeVar

from penstock.cli.errors_shown import INTERRUPTED

Finished = TypeVar("Finished")


def gathered(
    finished: Iterable[Finished], lines: Callable[[Finished], str] | None, keep: Callable[[list[Finished]], None]
) -> tuple[list[Finished], int]:
    """Return all that was finished, and the exit code of Ctrl-C where that ended it (0 otherwise). As each part is
    finished, its `lines` are printed where they are asked for, and all there is so far is handed to `keep`."""
    done: list[Finished] = []
    try:
        for one in finished:
            done.append(one)
            if lines is not None:
                print(lines(one), flush=True)
            keep(done)
    except KeyboardInterrupt:
        print(f"interrupted: {len(done)} finished", file=sys.stderr, flush=True)
        return done, INTERRUPTED
    return done, 0
